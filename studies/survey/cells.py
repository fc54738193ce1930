"""What is run: backends by algorithms, algorithms, simulators, scale-up. A cell is one bar of a figure."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass

BACKENDS = (
    "torch",
    "torch-compile",
    "tf-eager",
    "tf-function",
    "tf-graph",
    "jax",
    "jax-scan",
)
SIMULATORS = {
    "CartPole": "CartPole-v1",
    "MiniGrid": "MiniGrid-Empty-8x8-v0",
    "LunarLander": "LunarLander-v3",
    "Hopper": "Hopper-v5",
    "HalfCheetah": "HalfCheetah-v5",
    "Walker2d": "Walker2d-v5",
    "Ant": "Ant-v5",
    "Humanoid": "Humanoid-v5",
    "PyBullet": "bullet:Walker2D",
    "Pong": "ALE/Pong-v5",
    "EnvPool Pong": "envpool:Pong-v5",
    "Camera": "camera:Walker2d-v5",
}
"""From trivial to heavy; the last three show images to the network."""
OPENCL = "heads on OpenCL"
FIGURES = {
    "backends-td3": "TD3 on Walker2d: seven backends, five libraries",
    "backends-ddpg": "DDPG on Walker2d: seven backends, four libraries",
    "algorithms": "Algorithms of Stable-Baselines3 on Walker2d",
    "discrete": "Algorithms on LunarLander: three of Stable-Baselines3; two of ours, seen from their learner",
    "simulators": "PPO of Stable-Baselines3 on twelve simulators",
    "scale": "Self-play with 16 workers, seen from the main process; a step is a move",
}
TENSORFLOW, FRAMEWORKS = ".venv-tensorflow/bin/python", ".venv-frameworks/bin/python"
PROGRAMS = "studies.survey.programs"


@dataclass(frozen=True)
class Cell:
    """A program to be recorded: `count` iterations of `iteration` steps, after `skip` in which it fills buffers and compiles.

    `{steps}` and `{iterations}` in its words become what that amounts to. `bar` names it in its figure.
    """

    figure: str
    bar: str
    words: tuple[str, ...]
    iteration: int
    count: int
    skip: int = 1
    python: str = sys.executable
    device: str = "auto"
    whole: bool = False
    """Record everything, also what is skipped: workers do not count the iterations of the main process."""

    @property
    def name(self) -> str:
        return f"{self.figure}/{self.bar}"

    def command(self) -> list[str]:
        iterations = self.skip + self.count + 1
        values = {
            "{steps}": str(iterations * self.iteration),
            "{iterations}": str(iterations),
        }
        return [values.get(word, word) for word in self.words]

    def options(self) -> list[str]:
        """Options of `cutaway run`."""
        when = (
            []
            if self.whole
            else ["--after", f"{self.skip}it", "--for", f"{self.count}it"]
        )
        return ["--collector", self.device, *when]

    def quick(self) -> Cell:
        """The same, shorter: as many iterations as an interval needs."""
        return dataclasses.replace(self, count=min(self.count, max(6, self.count // 5)))


def cells() -> list[Cell]:
    """All of them."""
    return [
        *_backends("td3"),
        *_backends("ddpg"),
        *_algorithms(),
        *_discrete(),
        *_simulators(),
        *_scale(),
    ]


def python_of(backend: str) -> str:
    """TensorFlow has an environment of its own."""
    return TENSORFLOW if backend.startswith("tf") else sys.executable


def _backends(algorithm: str) -> list[Cell]:
    figure = f"backends-{algorithm}"
    chosen = ("--algorithm", algorithm, "--steps", "{steps}")

    def ours(backend: str) -> Cell:
        words = ("-m", "cutaway_workloads.backends", "--backend", backend, *chosen)
        count = (
            10 if backend == "tf-eager" else 30
        )  # several times slower than the others
        return Cell(figure, backend, (*words, "--every", "50", "--warm-up", "0"), 50, count, python=python_of(backend))  # fmt: skip

    def tf_agents(mode: str, count: int) -> Cell:
        words = ("-m", f"{PROGRAMS}.tf_agents", mode, *chosen)
        return Cell(
            figure, f"tf-agents {mode}", words, 1, count, skip=20, python=TENSORFLOW
        )

    single = ("-m", f"{PROGRAMS}.single_file", *chosen, "--learning-starts", "100")
    torchrl = ("-m", f"{PROGRAMS}.torchrl", *chosen, "--every", "50")
    sbx = (
        [_late(figure, "sbx", "TD3", "--library", "sbx")] if algorithm == "td3" else []
    )
    return [
        *map(ours, BACKENDS),
        Cell(figure, "single file", single, 1, 800, skip=120),
        _late(figure, "sb3", algorithm.upper()),
        *sbx,
        Cell(figure, "torchrl", torchrl, 50, 20, python=FRAMEWORKS),
        tf_agents("eager", 200),
        tf_agents("function", 600),
    ]


def _late(figure: str, bar: str, algorithm: str, *more: str) -> Cell:
    """Off-policy algorithms of the libraries learn from step 100 on, and an iteration is a step."""
    return Cell(figure, bar, (*_sb3(algorithm, "Walker2d-v5"), *more), 1, 800, skip=120)


def _algorithms() -> list[Cell]:
    return [
        *(_late("algorithms", name, name) for name in ("DDPG", "TD3", "SAC")),
        *_on_policy("algorithms", "Walker2d-v5"),
    ]


def _on_policy(figure: str, env: str) -> list[Cell]:
    return [
        Cell(figure, "A2C", _sb3("A2C", env), 32, 150),
        Cell(figure, "PPO", _sb3("PPO", env), 256, 16),
    ]


def _discrete() -> list[Cell]:
    trainer = (
        "-m",
        "cutaway_workloads.r2d2",
        "--small",
        "--env",
        "LunarLander-v3",
        "--actors",
        "2",
    )
    return [
        Cell("discrete", "DQN", _sb3("DQN", "LunarLander-v3"), 4, 400, skip=40),
        *_on_policy("discrete", "LunarLander-v3"),
        *(
            Cell("discrete", name, (*trainer, "--algorithm", name.lower(), "--updates", "{iterations}"), 0, 40, whole=True)
            for name in ("R2D2", "IMPALA")
        ),
    ]  # fmt: skip


def _simulators() -> list[Cell]:
    def cell(bar: str, env: str) -> Cell:
        rollout = 128 if bar in ("Pong", "EnvPool Pong", "Camera") else 256
        python = FRAMEWORKS if bar == "MiniGrid" else sys.executable
        return Cell("simulators", bar, _sb3("PPO", env), rollout, 12, python=python)

    return [cell(bar, env) for bar, env in SIMULATORS.items()]


def _scale() -> list[Cell]:
    words = (
        "-m",
        "cutaway_workloads.selfplay",
        "--workers",
        "16",
        "--generations",
        "{iterations}",
        "--games",
        "16",
    )
    sizes = ("--matches", "16", "--simulations", "16", "--steps", "30")  # fmt: skip
    return [
        Cell("scale", bar, (*words, *sizes, *more), 0, 1, device=device, whole=True)
        for bar, more, device in (
            ("own networks", (), "auto"),
            ("one server", ("--server",), "auto"),
            (OPENCL, ("--device", "opencl"), "opencl"),
        )
    ]


def _sb3(algorithm: str, env: str) -> tuple[str, ...]:
    return ("-m", f"{PROGRAMS}.sb3", algorithm, env, "--steps", "{steps}")
