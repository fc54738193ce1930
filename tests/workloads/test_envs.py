"""The environments: preprocessing, rules, and errors in one sentence."""

import time

import numpy as np
import pytest

from cutaway.errors import CutawayError
from cutaway_workloads.r2d2 import envs


def test_atari_shows_the_maximum_of_the_last_two_frames_of_four_in_84_by_84():
    import ale_py
    import cv2
    from ale_py import roms

    game = envs.make("atari:Pong", seed=5)
    obs = np.zeros((84, 84), np.uint8)
    game.reset(obs)
    twin = ale_py.ALEInterface()
    twin.setInt("random_seed", 5)
    twin.setFloat("repeat_action_probability", 0.0)
    twin.loadROM(roms.get_rom_path("pong"))
    twin.restoreState(game._ale.cloneState())
    for action in [2, 3, 0, 5] * 10:
        reward, done = game.step(action, obs)
        frames, total = [], 0.0
        for _ in range(4):
            total += twin.act(twin.getLegalActionSet()[action])
            frames.append(twin.getScreenGrayscale())
        wanted = cv2.resize(
            np.maximum(frames[-1], frames[-2]), (84, 84), interpolation=cv2.INTER_LINEAR
        )
        assert (obs == wanted).all()
        assert (reward, done) == (total, twin.game_over())
    assert obs.std() > 10
    assert game.spec.actions == 18 and game.spec.action_repeat == 4


def test_atari_starts_after_a_random_number_of_no_ops():
    game, obs = envs.make("atari:SpaceInvaders", seed=1), np.zeros((84, 84), np.uint8)
    frames = set()
    for _ in range(8):
        game.reset(obs)
        frames.add(game._ale.getEpisodeFrameNumber())
    assert len(frames) > 3 and max(frames) <= 30


@pytest.mark.parametrize("seed", range(6))
def test_the_t_maze_rewards_the_turn_the_cue_told(seed):
    maze, obs = envs.make("tmaze:3", seed), np.zeros(4, np.float32)
    maze.reset(obs)
    cue = int(obs[:2].argmax())
    for _ in range(3):
        assert maze.step(0, obs) == (0.0, False)
        assert not obs[:2].any()
    assert obs.tolist() == [0, 0, 0, 1]
    assert maze.step(1 + (cue + seed) % 2, obs) == (
        1.0 if seed % 2 == 0 else -1.0,
        True,
    )


def test_the_t_maze_ends_for_those_who_only_bump():
    maze, obs = envs.make("tmaze:2", 0), np.zeros(4, np.float32)
    maze.reset(obs)
    outcomes = [maze.step(1, obs) for _ in range(12)]
    assert outcomes[-1] == (-0.05, True) and not any(done for _, done in outcomes[:-1])


def test_masked_cartpole_hides_the_velocities():
    masked, full = envs.make("cartpole:masked", 3), envs.make("CartPole-v1", 3)
    short, long = np.zeros(2, np.float32), np.zeros(4, np.float32)
    masked.reset(short)
    full.reset(long)
    assert masked.step(1, short) == full.step(1, long)
    assert short.tolist() == long[[0, 2]].tolist()


def test_the_synthetic_environment_burns_cpu_time():
    game, obs = envs.make("synthetic:2000", 0), np.zeros((84, 84), np.uint8)
    game.reset(obs)
    before = time.thread_time()
    for _ in range(10):
        game.step(0, obs)
    assert time.thread_time() - before >= 0.02


@pytest.mark.parametrize(
    "name, words",
    [
        ("atari:Ponk", "no Atari game"),
        ("Nothing-v0", "no environment"),
        ("tmaze:x", "whole number"),
        ("cartpole:blind", "cartpole:masked"),
        ("Pendulum-v1", "discrete actions"),
    ],
)
def test_a_name_that_is_nothing_is_explained(name, words):
    with pytest.raises(CutawayError, match=words):
        envs.make(name, 0)
