"""Changes as people write them.

`NAME=2x` makes something twice as fast, `NAME=0` takes it away; NAME is an operation, a layer, a function or FILE:LINE.
NAME may also be a process. `cores=N` is another number of cores, `gpu=NAME` another GPU; another machine is an option.
`overlap=A,B` lets A run beside B, one pass behind or ahead.
`envs=N`, `workers=N` and `actors=N` change the structure, `batch=N`, `minibatch=N` and `threads=N` need a second recording.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cutaway.analysis.whatif import gpus
from cutaway.analysis.whatif.changes import Change, Cores, Faster, Overlap
from cutaway.analysis.whatif.sizes import LAWS, Size
from cutaway.analysis.whatif.structure import Actors, Structure
from cutaway.errors import CutawayError

_COUNTS = ("cores", "envs", "workers", "actors", *LAWS)
_MOST = {"cores": 1024, "envs": 4096, "workers": 1024, "actors": 1024}


def parse_all(words: Sequence[str]) -> list[list[Change]]:
    """What each word means. Whoever says the same thing twice meant something else."""
    names = [word.rpartition("=")[0] for word in words]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice in _COUNTS:
        raise CutawayError(f"{twice}= is there twice; write {twice}=2,4 for a curve.")
    if twice:
        raise CutawayError(f"{twice}= is there twice; say it once.")
    found = [parse(word) for word in words]
    if sum(len(changes) > 1 for changes in found) > 1:
        raise CutawayError(
            "Only one change can have several numbers; choose one number for the others."
        )
    return found


def parse(word: str) -> list[Change]:
    """The change a word of the command line means; several for a list of numbers.

    >>> parse("simulation=2x"), parse("train.py:226=0")
    ([Faster(name='simulation', times=2.0)], [Faster(name='train.py:226', times=inf)])
    """
    name, equals, value = word.rpartition("=")
    if not equals or not name or not value:
        raise CutawayError(
            f"{word!r} is no change; write NAME=2x, NAME=0, cores=N, envs=N or overlap=A,B."
        )
    if name in _COUNTS:
        return [_counted(name, _count(word, name, one)) for one in value.split(",")]
    if name == "gpu":
        return [gpus.parse(value)]
    if name == "overlap":
        moved, _, beside = value.partition(",")
        return [Overlap(moved, beside)]
    return [Faster(name, _times(word, value))]


def _count(word: str, name: str, text: str) -> int:
    least, most = int(name != "workers"), _MOST.get(name, 1 << 30)
    if not text.isdecimal() or not least <= int(text) <= most:
        raise CutawayError(
            f"{word!r}: the number of {name} is between {least} and {most}."
        )
    return int(text)


def _counted(name: str, count: int) -> Change:
    made: dict[str, Change] = {
        "cores": Cores(count),
        "envs": Structure(envs=count),
        "workers": Structure(workers=count),
        "actors": Actors(count),
    }
    return made.get(name, Size(name, count))


def named(change: Change) -> str:
    """A number as it is written: of one point of a curve."""
    match change:
        case Cores(count):
            return f"cores={count}"
        case Structure(envs=None):
            return f"workers={change.workers}"
        case Structure():
            return f"envs={change.envs}"
        case Actors(count):
            return f"actors={count}"
        case Size(name, value):
            return f"{name}={value}"
        case _:
            return ""


def _times(word: str, value: str) -> float:
    if value in ("0", "free"):
        return math.inf
    try:
        times = float(value.removesuffix("x"))
    except ValueError:
        times = -1.0
    if not value.endswith("x") or not 0 < times < math.inf:
        raise CutawayError(
            f"{word!r}: write 2x for twice as fast, 0.5x for half as fast, 0 for free."
        )
    return times
