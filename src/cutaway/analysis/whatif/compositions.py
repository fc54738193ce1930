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
from cutaway.errors import CutawayError
from cutaway.vocabulary import whole

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

COMPOSITIONS = ("colocated", "disaggregated", "asynchronous")
_SAMPLES = ("generation", "tool")
_TRAINS = ("reference", "inference", "backpropagation")
_MOST_GPUS = 4096
_GENERATES = 0.3


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
    gpus: int = 1

    def on(self, rollout: int, train: int) -> Parts:
        """The same with so many GPUs for each side."""
        shorter = (self.rollout - self.tail) * self.gpus / rollout + self.tail
        return replace(self, rollout=shorter, train=self.train * self.gpus / train)

    def seconds(self, composition: str) -> float:
        """An iteration, composed like that."""
        sampled, trained = self.rollout + self.reward, self.train + self.rest
        if composition == "colocated":
            return sampled + trained + self.sync
        if composition == "disaggregated":
            return max(sampled, trained) + self.sync
        return max(sampled, trained, self.sync)


@dataclass(frozen=True)
class Wish:
    """What was asked: compositions to try, and GPUs for each side, or to be divided between them."""

    compositions: tuple[str, ...]
    sides: tuple[int, int] | None = None
    total: int = 0


def wish(words: Sequence[str]) -> Wish | None:
    """What the words of a command line ask for; None if they are about something else.

    >>> wish(["composition=disaggregated", "gpus=rollout:6,train:2"])
    Wish(compositions=('disaggregated',), sides=(6, 2), total=0)
    >>> wish(["simulation=2x"])
    """
    named = dict(word.partition("=")[::2] for word in words)
    if not {"composition", "gpus"} & named.keys():
        return None
    if not named.keys() <= {"composition", "gpus"}:
        raise CutawayError("composition= and gpus= stand alone; ask for other changes apart.")  # fmt: skip
    asked = named.get("composition", "")
    if asked and asked not in COMPOSITIONS:
        raise CutawayError(f"{asked!r} is no composition; write {', '.join(COMPOSITIONS)}.")  # fmt: skip
    found = Wish((asked,) if asked else COMPOSITIONS)
    return _with_gpus(found, named["gpus"]) if "gpus" in named else found


def _with_gpus(found: Wish, text: str) -> Wish:
    if text.isdecimal() and 2 <= int(text) <= _MOST_GPUS:
        return replace(found, total=int(text))
    sides = dict(side.partition(":")[::2] for side in text.split(","))
    numbers = [sides.get(side, "") for side in ("rollout", "train")]
    fine = [n.isdecimal() and 1 <= int(n) <= _MOST_GPUS for n in numbers]
    if len(sides) != 2 or not all(fine):
        raise CutawayError(f"gpus={text}: write gpus=rollout:6,train:2, or gpus=8 to have them divided.")  # fmt: skip
    return replace(found, sides=(int(numbers[0]), int(numbers[1])))


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
    return Parts(
        sampled * each,
        tail * each,
        own.pop("reward", 0) * each,
        trained * each,
        own.pop("sync", 0) * each,
        sum(own.values()) * each,
        whole_ns * each,
        max(1, len(run.utilisation()["devices"])),
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
    known = parts(run)
    found = []
    for composition in asked.compositions:
        for sides in _sides(known, asked, composition):
            found.append(_predicted(known, composition, sides))
    return found


def _sides(known: Parts, asked: Wish, composition: str) -> list[tuple[int, int]]:
    if asked.sides:
        return [asked.sides]
    if not asked.total:
        return [(known.gpus, known.gpus)]
    if composition == "colocated":
        return [(asked.total, asked.total)]
    divided = [(n, asked.total - n) for n in range(1, asked.total)]
    divided.sort(key=lambda sides: known.on(*sides).seconds(composition))
    return divided[:1]


def _predicted(known: Parts, composition: str, sides: tuple[int, int]) -> Prediction:
    after = known.on(*sides).seconds(composition)
    gpus = f"gpus=rollout:{sides[0]},train:{sides[1]}"
    text = f"composition={composition} {gpus}"
    return Prediction(
        text, known.before, after, after, after, _assumes(known, composition)
    )


def _assumes(known: Parts, composition: str) -> tuple[str, ...]:
    said = [
        f"twice the GPUs halve generation and training, but not the tail of generation ({1e3 * known.tail:.3g} ms), "
        "rewards and the sending of weights",
        f"it was recorded on {known.gpus} GPU{'s' * (known.gpus != 1)} for each side, or without one",
    ]
    if composition == "disaggregated":
        said.append("each side works on what the other made one iteration before")
    if composition == "asynchronous":
        said.append("samples may be older than one iteration, and learning bears that")
    return tuple(said)


def lines(run: Run, found: list[Prediction]) -> list[str]:
    """What `cutaway what-if` prints."""
    known = parts(run)
    named = {
        "rollout": known.rollout,
        "reward": known.reward,
        "reference and update": known.train,
        "sync": known.sync,
        "rest": known.rest,
    }
    recorded = ", ".join(f"{name} {1e3 * s:.3g} ms" for name, s in named.items())
    out = [f"recorded: {1e3 * known.before:.3g} ms an iteration ({recorded})", ""]
    for one in found:
        out.append(f"{one.change}: {one.speedup:.2f}x as fast ({1e3 * one.after:.3g} ms an iteration)")  # fmt: skip
    assumed = dict.fromkeys(text for one in found for text in one.assumes)
    return [*out, "assumes: " + "; ".join(assumed)]
