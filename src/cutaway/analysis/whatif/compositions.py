"""How training of a language model could share its machine: one after the other, on two sides, or without waiting at all.

Colocated, an iteration is the sum of its parts. Disaggregated, one side samples while the other trains, and both stop to hand the
weights over. Asynchronous, nobody stops. Nothing is replayed here: the parts of an iteration are taken from the recording, so this
also holds for runs on accelerators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutaway.analysis.table import totals
from cutaway.analysis.whatif.predict import Prediction
from cutaway.analysis.whatif.times import ms
from cutaway.errors import CutawayError
from cutaway.vocabulary import whole

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

COMPOSITIONS = ("colocated", "disaggregated", "asynchronous")
_SAMPLES = ("generation", "tool")
_TRAINS = ("reference", "inference", "backpropagation")
_MOST_GPUS = 4096
_GENERATES = 0.3
_BESIDE = 2  # divisions shown on each side of the best


@dataclass(frozen=True)
class Parts:
    """Seconds of an iteration. `tail` is the part of `rollout` that more GPUs do not shorten; `rest` belongs to nobody."""

    rollout: float
    tail: float
    reward: float
    train: float
    sync: float
    rest: float
    before: float
    gpus: tuple[int, int] = (1, 1)  # of each side, as recorded

    def on(self, rollout: int, train: int) -> Parts:
        """The same with so many GPUs for each side."""
        shorter = (self.rollout - self.tail) * self.gpus[0] / rollout + self.tail
        return replace(self, rollout=shorter, train=self.train * self.gpus[1] / train)

    @property
    def sampled(self) -> float:
        """What the side does that generates."""
        return self.rollout + self.reward

    @property
    def trained(self) -> float:
        """What the side does that trains."""
        return self.train + self.rest

    def seconds(self, composition: str) -> float:
        """An iteration, composed like that."""
        if composition == "colocated":
            return self.sampled + self.trained + self.sync
        if composition == "disaggregated":
            return max(self.sampled, self.trained) + self.sync
        return max(self.sampled, self.trained, self.sync)


@dataclass(frozen=True)
class Division:
    """GPUs for each side, what an iteration takes, and which share of it each side works."""

    rollout: int
    train: int
    seconds: float
    rollout_busy: float
    train_busy: float


@dataclass(frozen=True)
class Wish:
    """What was asked: compositions to try, and GPUs for each side, or to be divided between them."""

    compositions: tuple[str, ...]
    sides: tuple[int, int] | None = None
    total: int = 0
    recorded: tuple[int, int] | None = None


def wish(words: Sequence[str]) -> Wish | None:
    """What the words of a command line ask for; None if they are about something else.

    >>> wish(["composition=disaggregated", "gpus=rollout:6,train:2"])
    Wish(compositions=('disaggregated',), sides=(6, 2), total=0, recorded=None)
    >>> wish(["simulation=2x"])
    """
    named = dict(word.partition("=")[::2] for word in words)
    known = {"composition", "gpus", "recorded"}
    if not known & named.keys():
        return None
    if not named.keys() <= known:
        raise CutawayError("composition=, gpus= and recorded= stand alone; ask for other changes apart.")  # fmt: skip
    asked = named.get("composition", "")
    if asked and asked not in COMPOSITIONS:
        raise CutawayError(f"{asked!r} is no composition; write {', '.join(COMPOSITIONS)}.")  # fmt: skip
    found = Wish((asked,) if asked else COMPOSITIONS)
    if "recorded" in named:
        found = replace(found, recorded=_recorded(named["recorded"]))
    return _with_gpus(found, named["gpus"]) if "gpus" in named else found


def _with_gpus(found: Wish, text: str) -> Wish:
    if text.isdecimal() and 2 <= int(text) <= _MOST_GPUS:
        return replace(found, total=int(text))
    sides = _two(text)
    if not sides:
        raise CutawayError(f"gpus={text}: write gpus=rollout:6,train:2, or gpus=8 to have them divided.")  # fmt: skip
    return replace(found, sides=sides)


def _recorded(text: str) -> tuple[int, int]:
    if text.isdecimal() and 1 <= int(text) <= _MOST_GPUS:
        return int(text), int(text)
    sides = _two(text)
    if not sides:
        said = "write recorded=rollout:4,train:4, or recorded=8 if both sides used the same GPUs."
        raise CutawayError(f"recorded={text}: {said}")
    return sides


def _two(text: str) -> tuple[int, int] | None:
    """The numbers of `rollout:6,train:2`."""
    sides = dict(side.partition(":")[::2] for side in text.split(","))
    numbers = [sides.get(side, "") for side in ("rollout", "train")]
    fine = [n.isdecimal() and 1 <= int(n) <= _MOST_GPUS for n in numbers]
    if len(sides) != 2 or not all(fine):
        return None
    return int(numbers[0]), int(numbers[1])


def parts(run: Run) -> Parts:
    """What an iteration of a recording consists of."""
    steady = run.steady()
    iterations = steady.iterations().where(process=run.main_process)
    units = float((iterations["recorded"] * iterations["count"]).sum())
    if not units:
        raise CutawayError("This run has no iterations; mark them with cutaway.iteration().")  # fmt: skip
    rows = list(steady.breakdown(by=("process", "operation", "layer")))
    makers = _makers(rows, run.main_process)
    own = totals((whole(r["operation"]), r["ns"]) for r in rows if r["process"] == run.main_process and not _lent(r, makers))  # fmt: skip
    others = [r["ns"] for r in rows if r["process"] in makers and r["layer"] != "wait"]
    sampled = sum(own.pop(name, 0) for name in _SAMPLES) + sum(others) / max(1, len(makers))  # fmt: skip
    trained = sum(own.pop(name, 0) for name in _TRAINS)
    if not sampled or not trained:
        raise CutawayError("This run does not both generate and train, so its parts cannot be composed anew.")  # fmt: skip
    whole_ns = float((iterations["end_ns"] - iterations["start_ns"]).sum())
    each = 1 / units / 1e9
    tail = min(sampled, steady.rollouts().tail_ns)
    seen = max(1, len(run.utilisation()["devices"]))
    return Parts(
        sampled * each,
        tail * each,
        own.pop("reward", 0) * each,
        trained * each,
        own.pop("sync", 0) * each,
        sum(own.values()) * each,
        whole_ns * each,
        (seen, seen),
    )


def _makers(rows: Sequence[dict[str, object]], leader: int) -> set[int]:
    """Processes beside the leader that are there to generate."""
    spent: dict[int, int] = {}
    made: dict[int, int] = {}
    for row in rows:
        process, name = int(str(row["process"])), str(row["operation"])
        if process == leader or not name or row["layer"] == "wait":
            continue
        spent[process] = spent.get(process, 0) + int(str(row["ns"]))
        generates = whole(name) in _SAMPLES
        made[process] = made.get(process, 0) + int(str(row["ns"])) * generates
    return {one for one, ns in spent.items() if made[one] >= _GENERATES * ns}


def _lent(row: dict[str, object], makers: set[int]) -> bool:
    """Whether the leader only waits there for those who generate."""
    awaits = whole(str(row["operation"])) in (*_SAMPLES, "replay", "")
    return bool(makers) and row["layer"] == "wait" and awaits


def predictions(run: Run, asked: Wish) -> list[Prediction]:
    """An iteration in each composition that was asked for, the fastest division of GPUs first where that is open."""
    known = as_recorded(run, asked)
    found = []
    for composition in asked.compositions:
        for sides in _sides(known, asked, composition):
            found.append(_predicted(known, composition, sides))
    return found


def as_recorded(run: Run, asked: Wish) -> Parts:
    """The parts of an iteration, and the GPUs they were recorded on, if the user said that."""
    known = parts(run)
    return replace(known, gpus=asked.recorded) if asked.recorded else known


def divisions(known: Parts, total: int, composition: str) -> list[Division]:
    """All ways to divide GPUs between the sides, beginning with one for generation."""
    found = []
    for rollout in range(1, total):
        on = known.on(rollout, total - rollout)
        took = on.seconds(composition)
        busy = on.sampled / took, on.trained / took
        found.append(Division(rollout, total - rollout, took, *busy))
    return found


def divided(known: Parts, asked: Wish) -> dict[str, list[Division]]:
    """For each composition with two sides, where the division is open."""
    open_for = [one for one in asked.compositions if one != "colocated" and asked.total]
    return {one: divisions(known, asked.total, one) for one in open_for}


def _sides(known: Parts, asked: Wish, composition: str) -> list[tuple[int, int]]:
    if asked.sides:
        return [asked.sides]
    if not asked.total:
        return [known.gpus]
    if composition == "colocated":
        return [(asked.total, asked.total)]
    best = min(divisions(known, asked.total, composition), key=lambda one: one.seconds)
    return [(best.rollout, best.train)]


def _predicted(known: Parts, composition: str, sides: tuple[int, int]) -> Prediction:
    after = known.on(*sides).seconds(composition)
    gpus = f"gpus=rollout:{sides[0]},train:{sides[1]}"
    text = f"composition={composition} {gpus}"
    return Prediction(
        text, known.before, after, after, after, _assumes(known, composition)
    )


def _assumes(known: Parts, composition: str) -> tuple[str, ...]:
    said = [
        f"twice the GPUs halve generation and training, but not the tail of generation ({ms(known.tail)} ms), "
        "rewards and the sending of weights",
        _recorded_on(known),
    ]
    if composition == "disaggregated":
        said.append("each side works on what the other made one iteration before")
    if composition == "asynchronous":
        said.append("samples may be older than one iteration, and learning bears that")
    return tuple(said)


def _recorded_on(known: Parts) -> str:
    rollout, train = known.gpus
    if rollout != train:
        return (
            f"it was recorded on {rollout} GPUs for generation and {train} for training"
        )
    return f"it was recorded on {rollout} GPU{'s' * (rollout != 1)} for each side, or without one (if not, say recorded=rollout:N,train:N)"


def lines(run: Run, asked: Wish, found: list[Prediction]) -> list[str]:
    """What `cutaway what-if` prints."""
    known = as_recorded(run, asked)
    named = {
        "rollout": known.rollout,
        "reward": known.reward,
        "reference and update": known.train,
        "sync": known.sync,
        "rest": known.rest,
    }
    recorded = ", ".join(f"{name} {ms(s)} ms" for name, s in named.items())
    out = [f"recorded: {ms(known.before)} ms an iteration ({recorded})", ""]
    for one in found:
        out.append(f"{one.change}: {one.speedup:.2f}x as fast ({ms(one.after)} ms an iteration)")  # fmt: skip
    for composition, all_of in divided(known, asked).items():
        out += ["", *_around(all_of, composition)]
    assumed = dict.fromkeys(text for one in found for text in one.assumes)
    return [*out, "", "assumes: " + "; ".join(assumed)]


def _around(all_of: list[Division], composition: str) -> list[str]:
    """The best division, those beside it, and which side waits for the other."""
    best = min(range(len(all_of)), key=lambda at: all_of[at].seconds)
    first = max(0, min(best - _BESIDE, len(all_of) - 2 * _BESIDE - 1))
    out = [f"{composition}, GPUs for generation and training:"]
    for one in all_of[first : first + 2 * _BESIDE + 1]:
        mark = "  <- best" if one is all_of[best] else ""
        sides = f"{one.rollout:5d} + {one.train:<4d} {ms(one.seconds):>9} ms"
        out.append(f"{sides}   generation works {one.rollout_busy:4.0%}, training {one.train_busy:4.0%}{mark}")  # fmt: skip
    close = [one for one in all_of if one.seconds <= 1.05 * all_of[best].seconds]
    if len(close) > 1:
        fewest, most = close[0].rollout, close[-1].rollout
        out.append(f"from {fewest} to {most} for generation are within 5 % of it")
    return out
