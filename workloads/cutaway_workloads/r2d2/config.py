"""Every setting of a training run as one value that travels between the processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Algorithm = Literal["r2d2", "impala"]
BatchRule = Literal["seed", "dynamic"]


@dataclass(frozen=True)
class NetworkConfig:
    """Sizes of the network; the defaults are SEED RL's."""

    torso: int = 512
    lstm: int = 512
    head: int = 512


@dataclass(frozen=True)
class ReplayConfig:
    """Prioritised sequence replay and the lock between its two ends."""

    capacity: int = 2000
    minimum: int = 200
    ratio: float = 1.5
    priority_exponent: float = 0.9
    importance_exponent: float = 0.6
    eta: float = 0.9


@dataclass(frozen=True)
class R2D2Config:
    """Targets of R2D2."""

    n_step: int = 5
    value_rescaling: float = 1e-3
    target_period: int = 2500


@dataclass(frozen=True)
class ImpalaConfig:
    """Loss weights of the V-trace actor-critic."""

    baseline_cost: float = 0.5
    entropy_cost: float = 0.01
    rho_clip: float = 1.0
    c_clip: float = 1.0


@dataclass(frozen=True)
class EmulatedDevice:
    """An accelerator that sleeps a + b·n µs for inference on n observations and train_us for an update."""

    a_us: float
    b_us: float
    train_us: float = 0.0


@dataclass(frozen=True)
class Config:
    """One training run. `--help` says what each setting means."""

    env: str = "atari:Pong"
    algorithm: Algorithm = "r2d2"
    actors: int = 4
    envs_per_actor: int = 1
    batch_rule: BatchRule = "seed"
    inference_batch: int = 0
    batch_timeout_us: float = 1000.0
    device: str = "cpu"
    threads: int = 1
    seed: int = 1
    unroll: int = 100
    burn_in: int = 40
    batch: int = 64
    queue: int = 100
    discount: float = 0.997
    learning_rate: float = 4.8e-4
    adam_epsilon: float = 1e-3
    gradient_clip: float = 40.0
    steps: int = 0
    updates: int = 0
    seconds: float = 0.0
    stop_at_return: float | None = None
    train: bool = True
    directory: str = ""
    resume: bool = False
    checkpoint_seconds: float = 300.0
    checkpoint_replay: bool = False
    progress_seconds: float = 2.0
    tensorboard: bool = False
    emulate: EmulatedDevice | None = None
    ray_groups: int = 0
    ray_address: str = ""
    ray_batch: int = 8
    network: NetworkConfig = field(default_factory=NetworkConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    r2d2: R2D2Config = field(default_factory=R2D2Config)
    impala: ImpalaConfig = field(default_factory=ImpalaConfig)

    @property
    def environments(self) -> int:
        """Environments behind one inference server."""
        return self.actors * self.envs_per_actor

    @property
    def overlap(self) -> int:
        """Steps an unroll shares with the one before it, besides the bootstrap step."""
        return self.burn_in if self.algorithm == "r2d2" else 0

    @property
    def length(self) -> int:
        """Steps stored in one unroll: burn-in, trained steps, and the step the last one bootstraps from."""
        return self.overlap + self.unroll + 1

    @property
    def inference_envs(self) -> int:
        """Observations in a full inference batch: SEED's rule unless a number was asked for."""
        rule = max(self.envs_per_actor, self.environments // 2)
        wanted = self.inference_batch or rule
        return max(self.envs_per_actor, min(wanted, self.environments))

    @property
    def unrolls_per_update(self) -> int:
        """New unrolls each update takes: this locks the learner's rate to the actors'."""
        if self.algorithm == "impala":
            return self.batch
        return max(1, int(self.batch / self.replay.ratio))
