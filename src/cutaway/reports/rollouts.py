"""How samples are made and used, of a language model or of others, in numbers for the verdict and in sentences for people."""

from __future__ import annotations

from statistics import median

from cutaway.analysis.rollouts import Rollouts
from cutaway.analysis.table import totals
from cutaway.vocabulary import whole

from .digest import Digest, Process
from .text import percent, plural, size

GENERATES = 0.3
"""Of its work: a process that generates so much is there to make samples."""
HARDLY = 0.02
"""Of its time: a learner that acts for longer is none that only learns."""
_AWAITS = ("generation", "replay", "")
_SENDS = "sync: "


def generators(digest: Digest) -> list[Process]:
    """The processes beside the main one that are there to make samples."""
    others = (one for one in digest.processes if one.id != digest.main_process)
    return [one for one in others if _generated(one) >= GENERATES]


def _generated(process: Process) -> float:
    spent = totals((whole(name), ns) for name, ns in process.operations.items() if name)
    return spent.get("generation", 0) / (sum(spent.values()) or 1)


def generators_idle(digest: Digest) -> float:
    """The share of their time in which the processes that make samples only wait."""
    return median([one.wait_share for one in generators(digest)] or [0.0])


def sample_wait(digest: Digest, total: int) -> float:
    """The share of its time in which a process that trains waits for samples; 0 where nobody else makes them."""
    trains = digest.main.operations.get("backpropagation", 0)
    others = generators(digest) or digest.rollouts.queue is not None
    if not trains or not others:
        return 0.0
    waits = (
        cell.ns
        for cell in digest.spent.cells
        if cell.layer == "wait" and whole(cell.operation) in _AWAITS
    )
    return sum(waits) / total


def sample_makers(digest: Digest) -> int:
    """Processes that simulate; 0 if the main one simulates or acts, too, makes no updates, or mostly waits for others that are known:
    then it waits for something else."""
    spent = digest.main.operations
    acts = 0
    for name in ("simulation", "inference", "evaluation"):
        acts += spent.get(name, 0)
    if not spent.get("backpropagation"):
        return 0
    if acts >= HARDLY * sum(spent.values()):
        return 0
    makers = set()
    for process in digest.processes:
        if process.operations.get("simulation"):
            makers.add(process.id)
    makers.discard(digest.main_process)
    waited, elsewhere = 0, 0
    for wait in digest.waits:
        if wait.process != digest.main_process:
            continue
        waited += wait.ns
        if wait.among and not makers.intersection(wait.among):
            elsewhere += wait.ns
    if 2 * elsewhere > waited:
        return 0
    return len(makers)


def sync_steps(digest: Digest, total: int) -> dict[str, float]:
    """The share of each step of bringing weights to the engine; without a name, what is in none of them."""
    spent = totals(
        (cell.operation.removeprefix(_SENDS), cell.ns)
        for cell in digest.spent.cells
        if whole(cell.operation) == "sync"
    )
    return {"" if name == "sync" else name: ns / total for name, ns in spent.items()}


def sentence(found: Rollouts) -> str:
    """All that is known, for the summary; empty where nothing is."""
    parts = [*_batch(found), *_ready(found), *_age(found)]
    if found.cache_bytes:
        parts.append(f"KV cache {size(found.cache_bytes)}")
    return "; ".join(parts)


def _batch(found: Rollouts) -> list[str]:
    if not found.decoding_ns:
        return []
    parts = [
        f"up to {plural(int(found.peak), 'sequence')} at once, {found.mean:.1f} on average"
    ]
    if found.tail_ns:
        alone = percent(found.alone_ns / found.decoding_ns)
        tail = percent(found.tail_share)
        parts.append(
            f"{tail} of decoding with a quarter of the batch or less, {alone} with one"
        )
    if found.waiting is not None and found.waiting >= 0.05:
        parts.append(f"{found.waiting:.1f} wait for a place in the engine")
    return parts


def _ready(found: Rollouts) -> list[str]:
    if found.queue is None:
        return []
    if found.queue_empty:
        empty = f", empty {percent(found.queue_empty)} of the time"
    else:
        empty = ""
    return [f"{found.queue:.1f} samples ready for the trainer{empty}"]


def _age(found: Rollouts) -> list[str]:
    parts = []
    if found.staleness == 0 and not found.staleness_most:
        parts.append("trained on samples of the newest policy")
    elif found.staleness is not None:
        parts.append(
            f"trained on {found.staleness:.1f} policy versions after sampling (at most {found.staleness_most or 0:.0f})"
        )
    if found.discarded:
        parts.append(
            f"{found.discarded:.0f} samples discarded as too old ({percent(found.discarded_share)})"
        )
    return parts
