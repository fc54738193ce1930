"""The pairs: a program, its settings before, the one that changes, and the words for `cutaway what-if`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pair:
    """`cpus` among the settings is not the program's: it runs on so many cores then."""

    program: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    words: tuple[str, ...]
    amdahl: str = ""
    second: Mapping[str, int] = field(
        default_factory=dict
    )  # a second, short recording with these settings

    @property
    def name(self) -> str:
        """As the table calls it."""
        had = {**self.before, **dict.fromkeys(self.after.keys() - self.before.keys())}
        shown = [
            f"{key} {'default' if had[key] is None else had[key]} → {value}"
            for key, value in self.after.items()
        ]
        kept = [
            f"{key} {value}"
            for key, value in self.before.items()
            if key not in self.after
        ]
        return f"{self.program}{' (' + ', '.join(kept) + ')' if kept else ''}: {', '.join(shown)}"


def _pair(program: str, before: str, after: str, words: str, second: str = "") -> Pair:
    return Pair(
        program,
        _settings(before),
        _settings(after),
        tuple(words.split()),
        second=_settings(second),
    )


def _settings(text: str) -> dict[str, int]:
    return {
        word.partition("=")[0]: int(word.partition("=")[2]) for word in text.split()
    }


PAIRS = [
    _pair("ppo", "units=8", "units=16", "simulator=0.5x"),
    _pair("ppo", "units=8", "units=4", "simulator=2x"),
    _pair("ppo", "units=8 workers=1", "units=16", "simulator=0.5x"),
    _pair("ppo", "units=8 workers=1", "units=4", "simulator=2x"),
    _pair("ppo", "units=8 workers=1 slow=4", "slow=1", "_worker-4=4x"),
    _pair("dqn", "units=4", "units=8", "simulator=0.5x"),
    _pair("dqn", "units=4", "units=1", "simulator=4x"),
    _pair("actor_learner", "units=10 updates=4", "units=5", "simulation=2x"),
    _pair("actor_learner", "units=10 updates=4", "units=20", "simulation=0.5x"),
    _pair("actor_learner", "units=10 updates=4", "updates=2", "update=2x"),
    _pair("actor_learner", "units=10 updates=4", "updates=12", "update=0.3333x"),
    _pair("replay", "prefetch=0", "prefetch=1", "overlap=replay"),
    _pair("replay", "prefetch=0 draws=2", "prefetch=1", "overlap=replay"),
    _pair("lockstep", "slow=4", "slow=1", "env-3=4x"),
    _pair("lockstep", "slow=1", "slow=3", "env-3=0.3333x"),
    _pair("actor_learner", "cpus=2", "cpus=1", "cores=1"),
    _pair("actor_learner", "cpus=1", "cpus=2", "cores=2"),
    _pair("lockstep", "cpus=2", "cpus=1", "cores=1"),
    _pair("lockstep", "cpus=1", "cpus=2", "cores=2"),
    _pair("ppo", "workers=1 cpus=2", "cpus=1", "cores=1"),
    _pair("ppo", "workers=1 cpus=1", "cpus=2", "cores=2"),
    _pair("ppo", "envs=4 workers=0", "workers=1", "workers=4"),
    _pair("ppo", "envs=4 workers=1", "workers=0", "workers=0"),
    _pair("ppo", "envs=2 workers=0", "workers=1", "workers=2"),
    _pair("ppo", "envs=8 workers=1", "workers=0", "workers=0"),
    _pair("vector", "envs=4 workers=1", "workers=0", "workers=0"),
    _pair("vector", "envs=4 workers=0", "workers=1", "workers=4"),
    _pair("ppo", "envs=4 workers=1", "envs=8", "envs=8"),
    _pair("ppo", "envs=4 workers=0", "envs=8", "envs=8"),
    _pair("actor_learner", "actors=1 units=20", "actors=2", "actors=2"),
    _pair("actor_learner", "actors=2 units=20", "actors=4", "actors=4"),
    _pair("served", "actors=1", "actors=2", "actors=2"),
    _pair("served", "actors=2", "actors=4", "actors=4"),
    _pair("served", "actors=2", "actors=1", "actors=1"),
    _pair("served", "actors=2 units=4", "units=8", "simulation=0.5x"),
    _pair("r2d2", "actors=2", "actors=4", "actors=4"),
    _pair("r2d2", "actors=4", "actors=8", "actors=8"),
    _pair("impala", "actors=2", "actors=4", "actors=4"),
    _pair("ppo", "batch=32", "batch=128", "minibatch=128", second="batch=64"),
    _pair("ppo", "batch=32", "batch=16", "minibatch=16", second="batch=64"),
    _pair("dqn", "batch=64", "batch=512", "batch=512", second="batch=256"),
    _pair(
        "ppo",
        "width=512 units=4 threads=1",
        "threads=2 units=8",
        "threads=2 simulator=0.5x",
        second="threads=2",
    ),
    _pair(
        "ppo",
        "width=512 units=4 threads=2",
        "threads=1 units=8",
        "threads=1 simulator=0.5x",
        second="threads=1",
    ),
    _pair("selfplay", "workers=1", "workers=2", "workers=2"),
    _pair(
        "selfplay", "workers=2 updates=10", "updates=40", "update=0.25x replay=0.25x"
    ),
    _pair(
        "selfplay",
        "workers=2 server=1 updates=10",
        "updates=40",
        "update=0.25x replay=0.25x",
    ),
    _pair("selfplay", "workers=2 server=1", "workers=4", "actors=4"),
    _pair("rllib", "runners=1", "runners=2", "workers=2"),
    _pair("rllib", "runners=2 units=8", "units=16", "simulator=0.5x"),
    _pair("torchrl", "workers=1", "workers=2", "workers=2"),
    _pair("torchrl", "workers=2 units=8", "units=16", "simulator=0.5x"),
]

HELD_OUT = [
    _pair("ppo", "units=12", "units=6", "simulator=2x"),
    _pair("ppo", "units=12 workers=1", "units=6", "simulator=2x"),
    _pair("dqn", "units=6", "units=2", "simulator=3x"),
    _pair("actor_learner", "units=14 updates=6", "units=7", "simulation=2x"),
    _pair("actor_learner", "units=14 updates=6", "updates=3", "update=2x"),
    _pair("lockstep", "slow=3", "slow=1", "env-3=3x"),
    _pair("replay", "prefetch=0 draws=3", "prefetch=1", "overlap=replay"),
    _pair("ppo", "envs=6 workers=1", "workers=0", "workers=0"),
    _pair("served", "actors=3 units=6", "units=3", "simulation=2x"),
    _pair("ppo", "batch=64", "batch=256", "minibatch=256", second="batch=128"),
]
"""Chosen when the replay was finished, and not looked at before: nothing in it comes from them."""
PAIRS += HELD_OUT
