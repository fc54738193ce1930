"""The family an algorithm belongs to, because that decides what makes an update cheaper.

On-policy algorithms pass over a rollout several times, so larger minibatches mean fewer updates. Off-policy ones draw each batch
from a replay memory, so a larger batch only makes each update more expensive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cutaway.analysis.table import totals

from .digest import CallSite, Digest, largest
from .text import place

ON_POLICY = "on-policy"
ONE_PASS = "one pass"
OFF_POLICY = "off-policy"
NAMES = {
    ON_POLICY: "ppo ppg npg rpo appo happo mappo",
    ONE_PASS: "a2c a3c reinforce vpg pg impala trpo",
    OFF_POLICY: (
        "dqn ddqn c51 qrdqn iqn fqf rainbow r2d2 apex ddpg td3 sac redq crossq tqc droq cql iql bcq bear awac td7 "
        "qlearning qmix vdn maddpg matd3 dreamer dreamerv3"
    ),
}
BACKWARD = "run_backward"  # a call of it is an update
MANY_STEPS = 16  # in an update that handles them one by one
OPTIMIZERS = "/torch/optim/"  # their calls are as many as there are parameters
NOTABLE = 0.25
"""Of the update's calls besides the backward pass: what takes less is not why the update is slow. Returns, say."""
_FAMILY: dict[str, str] = {}
for _family, _words in NAMES.items():
    _FAMILY.update(dict.fromkeys(_words.split(), _family))


def family(callsites: Iterable[CallSite], program: str) -> str:
    """By the files that make the update's calls, else by the program's name, else by a replay memory that is sampled; empty if
    unknown.

    >>> family([], "sac_continuous_action.py"), family([], "train.py")
    ('off-policy', '')
    """
    spots = list(callsites)
    updates = [spot for spot in spots if spot.operation == "backpropagation"]
    by_file = totals((named(spot.file), spot.ns) for spot in updates)
    by_file.pop("", None)
    if by_file:
        return largest(by_file)
    drawn = any(
        spot.operation == "replay" and spot.caller.endswith("sample") for spot in spots
    )
    return named(program) or (OFF_POLICY if drawn else "")


def named(path: str) -> str:
    """The family of the algorithm that the last parts of a path name."""
    words = re.split(r"[^a-z0-9]+", "/".join(path.lower().split("/")[-3:]))
    return next((_FAMILY[word] for word in reversed(words) if word in _FAMILY), "")


@dataclass(frozen=True)
class OneByOne:
    """An update that handles the steps of a rollout one after the other: the line that does, and how many steps."""

    line: str
    steps: float


def one_by_one(digest: Digest) -> OneByOne | None:
    """Found by a line with a call of the backend for every step, in updates of many steps each."""
    calls = [
        spot
        for spot in digest.code.callsites
        if (spot.operation, spot.layer) == ("backpropagation", "backend")
    ]
    updates = sum(spot.count for spot in calls if spot.function.endswith(BACKWARD))
    steps = digest.pace.steps
    if not updates or steps < MANY_STEPS * updates:
        return None
    often = [
        spot
        for spot in calls
        if spot.count >= max(MANY_STEPS * updates, steps / 2)
        and OPTIMIZERS not in spot.file
    ]
    others = sum(spot.ns for spot in calls if not spot.function.endswith(BACKWARD))
    if not often or sum(spot.ns for spot in often) < NOTABLE * others:
        return None
    most = max(often, key=lambda spot: spot.ns)
    return OneByOne(
        place(most.your_file or most.file, most.your_line or most.line), steps / updates
    )
