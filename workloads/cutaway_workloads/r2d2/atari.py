"""The Arcade Learning Environment with SEED RL's preprocessing, lean: ale_py and OpenCV, no wrappers."""

from __future__ import annotations

import numpy as np

from cutaway import CutawayError

from .envs import EnvSpec
from .shared import Array

SIZE = 84
REPEAT = 4
MAX_NOOPS = 30
MAX_FRAMES = 108_000


class Atari:
    """Action repeat 4, maximum of the last two grey frames, 84×84 bilinear, ≤ 30 no-ops, all 18 actions."""

    spec = EnvSpec(shape=(SIZE, SIZE), dtype="uint8", actions=18, action_repeat=REPEAT)

    def __init__(self, game: str, seed: int) -> None:
        try:
            import ale_py
            import cv2
            from ale_py import roms
        except ImportError as error:
            raise CutawayError(
                f"Atari needs {error.name}: pip install 'cutaway[atari]'."
            ) from error
        cv2.setNumThreads(0)
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self._resize, self._linear = cv2.resize, cv2.INTER_LINEAR
        self._ale = ale_py.ALEInterface()
        self._ale.setInt("random_seed", seed)
        self._ale.setFloat("repeat_action_probability", 0.0)
        self._ale.setInt("max_num_frames_per_episode", MAX_FRAMES)
        self._ale.loadROM(_rom(game, roms))
        self._actions = list(self._ale.getLegalActionSet())
        self._random = np.random.default_rng(seed)
        height, width = self._ale.getScreenDims()
        self._frames = (
            np.zeros((height, width), np.uint8),
            np.zeros((height, width), np.uint8),
        )

    def reset(self, out: Array) -> None:
        ale = self._ale
        ale.reset_game()
        for _ in range(int(self._random.integers(0, MAX_NOOPS + 1))):
            ale.act(self._actions[0])
            if ale.game_over():
                ale.reset_game()
        ale.getScreenGrayscale(self._frames[0])
        self._resize(self._frames[0], (SIZE, SIZE), dst=out, interpolation=self._linear)

    def step(self, action: int, out: Array) -> tuple[float, bool]:
        ale, move, reward = self._ale, self._actions[action], 0.0
        older, newer = self._frames
        for _ in range(REPEAT - 2):
            reward += ale.act(move)
        reward += ale.act(move)
        ale.getScreenGrayscale(older)
        reward += ale.act(move)
        ale.getScreenGrayscale(newer)
        np.maximum(older, newer, out=newer)
        self._resize(newer, (SIZE, SIZE), dst=out, interpolation=self._linear)
        return reward, bool(ale.game_over())


def _rom(game: str, roms: object) -> str:
    """`Pong`, `pong` and `SpaceInvaders` all name a game."""
    snake = "".join(
        "_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(game)
    )
    known = roms.get_all_rom_ids()  # type: ignore[attr-defined]
    if snake not in known:
        raise CutawayError(
            f"There is no Atari game {game!r}: try atari:Pong or atari:SpaceInvaders."
        )
    return str(roms.get_rom_path(snake))  # type: ignore[attr-defined]
