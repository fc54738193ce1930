"""Brings the parts of a run to its folder: this host's from its disk, those of other hosts through Ray.

A gathering that was interrupted goes on where it stopped. What a node recorded is removed there
when all of it has arrived and its processes have ended.
"""

from __future__ import annotations

import logging
import os
import pickle
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from cutaway.cluster import move
from cutaway.errors import CutawayError
from cutaway.record.storage import HOST, scratch
from cutaway.trace.files import read_object
from cutaway.trace.running import locked

Ask = Callable[
    ..., Any
]  # calls a function on a node, with the folder of what that recorded as its first argument


def gather(run: Path, address: str, say: Callable[[str], None]) -> list[str]:
    """Moves every part that can be reached to a run's folder; returns a sentence for each part that cannot."""
    if not run.is_dir():
        raise CutawayError(
            f"There is no run at {run}; name a folder NAME.cutaway that `cutaway run` made."
        )
    local = local_of(run)
    missing = []
    if not gather_here(run, local):
        missing.append(
            "processes on this host are still recording; run this again when they have ended"
        )
    if not address:
        return missing
    with nodes(local, address) as (asks, lost):
        for name, ask in asks.items():
            if name == os.uname().nodename:
                continue
            try:
                bring(run / (HOST + name), ask)
                say(f"gathered {name}")
            except (
                Exception
            ) as error:  # even if one node fails, the others are gathered
                lost.append(
                    f"{name} could not be gathered ({type(error).__name__}); try again"
                )
    return missing + lost


def gather_here(run: Path, local: Path) -> bool:
    """Moves this host's part, if there is one; False while its processes run or somebody else moves it."""
    part = _part_here(local)
    if not part.is_dir():
        return True
    with locked(part, move.LOCK) as only:
        if not only or move.move(part, run / part.name):
            return False
    move.clean(part)
    return True


def local_of(run: Path) -> Path:
    """Where the hosts of a run keep their parts."""
    about = read_object(run / "run.json")
    if not about:
        raise CutawayError(
            f"{run} is not a Cutaway run: it has no run.json; check the path."
        )
    options = about.get("options")
    return Path(
        (isinstance(options, dict) and options.get("local")) or scratch(str(run))
    )


def _part_here(local: Path) -> Path:
    return local / (HOST + os.uname().nodename)


@contextmanager
def nodes(local: Path, address: str) -> Iterator[tuple[dict[str, Ask], list[str]]]:
    """What asks each living node of a Ray cluster, by host; and a sentence for each node that is lost."""
    try:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    except ImportError:
        raise CutawayError(
            "Reading from a Ray cluster needs ray: pip install ray."
        ) from None
    try:
        ray.init(
            address=address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
        )
    except ConnectionError as error:
        raise CutawayError(
            f"No Ray cluster answers at {address} ({error}); start it, or name another address."
        ) from None

    def ask_on(node: dict[str, Any]) -> Ask:
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = ray.remote(_answer).options(
            num_cpus=0, scheduling_strategy=here, max_retries=2
        )

        def ask(function: Callable[..., Any], *args: Any) -> Any:
            return pickle.loads(
                zlib.decompress(ray.get(task.remote(local, function, *args)))
            )

        return ask

    found = ray.nodes()  # type: ignore[no-untyped-call]
    alive = {
        node["NodeManagerHostname"]: ask_on(node) for node in found if node["Alive"]
    }
    lost = sorted({node["NodeManagerHostname"] for node in found} - alive.keys())
    sentence = "{} is lost, and with it everything it recorded since the last gather"
    try:
        yield alive, [sentence.format(name) for name in lost]
    finally:
        ray.shutdown()


def _answer(local: Path, function: Callable[..., Any], *args: Any) -> bytes:
    """On a node: what a function returns about its part, small enough to travel."""
    return zlib.compress(pickle.dumps(function(_part_here(local), *args)), 1)


def bring(target: Path, ask: Ask) -> None:
    """Copies what one node has and this folder lacks."""
    listing: move.Listing = ask(move.list_part)
    move.copy_part(target, listing, partial(ask, move.read_piece))
    if not any(alive for _, _, alive in listing):
        ask(move.remove_files, listing)
