"""What is run: backends by algorithms, algorithms, simulators, scale-up. A cell is one bar of a figure."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass

BACKENDS = ("torch", "torch-compile", "tf-eager", "tf-function", "tf-graph", "jax", "jax-scan")
SIMULATORS = {
    "CartPole": "CartPole-v1",
    "Pendulum": "Pendulum-v1",
    "LunarLander": "LunarLander-v3",
    "Pong": "ALE/Pong-v5",
    "Hopper": "Hopper-v5",
    "HalfCheetah": "HalfCheetah-v5",
    "Walker2d": "Walker2d-v5",
    "Ant": "Ant-v5",
    "Humanoid": "Humanoid-v5",
    "PyBullet": "bullet:Walker2D",
}
ALGORITHMS = {"DDPG": 1000, "TD3": 1000, "SAC": 800, "A2C": 6000, "PPO": 6144}
LATE = {"iteration": 1, "skip": 120}
"""Off-policy algorithms of the libraries learn from step 100 on, and an iteration is a step."""
OPENCL = "heads on OpenCL"
FIGURES = {
    "backends-td3": "TD3 on Walker2d, seven backends and two libraries",
    "backends-ddpg": "DDPG on Walker2d, seven backends and one library",
    "algorithms": "Algorithms of Stable-Baselines3 on Walker2d",
    "simulators": "PPO of Stable-Baselines3 on ten simulators",
    "scale": "Self-play with 16 workers, seen from the main process; a step is a move",
}


@dataclass(frozen=True)
class Cell:
    """A program to be recorded; `steps` are replaced in its words. `bar` names it in its figure."""

    figure: str
    bar: str
    words: tuple[str, ...]
    steps: int
    python: str = sys.executable
    iteration: int = 0
    """Steps in an iteration, if recording begins after `skip` of them and ends before the last: no compiling, no clearing up."""
    skip: int = 1
    device: str = "auto"

    @property
    def name(self) -> str:
        return f"{self.figure}/{self.bar}"

    def command(self) -> list[str]:
        return [word.replace("{steps}", str(self.steps)) for word in self.words]

    def options(self) -> list[str]:
        """Options of `cutaway run`."""
        if not self.iteration:
            return ["--device", self.device]
        kept = max(1, self.steps // self.iteration - self.skip - 1)
        return ["--device", self.device, "--after", f"{self.skip}it", "--for", f"{kept}it"]

    def quick(self) -> Cell:
        """The same with fewer steps."""
        return dataclasses.replace(self, steps=max(2, self.steps // 5))


def cells() -> list[Cell]:
    """All of them."""
    return [*_backends(), *_algorithms(), *_simulators(), *_scale()]


def python_of(backend: str) -> str:
    """TensorFlow has an environment of its own."""
    return ".venv-tensorflow/bin/python" if backend.startswith("tf") else sys.executable


def _backends() -> list[Cell]:
    found = []
    for algorithm in ("td3", "ddpg"):
        figure = f"backends-{algorithm}"
        for backend in BACKENDS:
            words = ("-m", "cutaway_workloads.backends", "--backend", backend, "--algorithm", algorithm)
            sizes = ("--steps", "{steps}", "--every", "100", "--warm-up", "0")
            steps = 600 if backend == "tf-eager" else 1500  # several times slower than the others
            found.append(Cell(figure, backend, (*words, *sizes), steps, python_of(backend), iteration=100))
        found.append(Cell(figure, "sb3", _sb3(algorithm.upper(), "Walker2d-v5"), 1000, **LATE))
    sbx = (*_sb3("TD3", "Walker2d-v5"), "--library", "sbx")
    found.append(Cell("backends-td3", "sbx", sbx, 1000, **LATE))
    return found


def _algorithms() -> list[Cell]:
    return [
        Cell("algorithms", name, _sb3(name, "Walker2d-v5"), steps, **(LATE if steps <= 1000 else {}))
        for name, steps in ALGORITHMS.items()
    ]


def _simulators() -> list[Cell]:
    return [Cell("simulators", bar, _sb3("PPO", env), 4096) for bar, env in SIMULATORS.items()]


def _scale() -> list[Cell]:
    words = ("-m", "cutaway_workloads.selfplay", "--workers", "16", "--generations", "3", "--games", "16")
    sizes = ("--matches", "16", "--simulations", "{steps}", "--steps", "30")
    return [
        Cell("scale", "own networks", (*words, *sizes), 32),
        Cell("scale", "one server", (*words, *sizes, "--server"), 32),
        Cell("scale", OPENCL, (*words, *sizes, "--device", "opencl"), 32, device="opencl"),
    ]


def _sb3(algorithm: str, env: str) -> tuple[str, ...]:
    return ("-m", "studies.survey.sb3", algorithm, env, "--steps", "{steps}")
