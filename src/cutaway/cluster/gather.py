"""Brings the parts of a run to its folder: this host's from its disk, those of other hosts through Ray.

Pieces travel compressed. A gathering that was interrupted goes on where it stopped. What a node recorded is removed there
when all of it has arrived and its processes have ended.
"""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutaway.cluster import move
from cutaway.errors import CutawayError
from cutaway.record.places import HOST, scratch
from cutaway.trace.files import read_object

PIECE = 32 << 20
Ask = Callable[..., Any]  # runs a function on one node
Listing = list[tuple[str, int, bool]]  # files of a part: path in it, size, whether its process still runs


def gather_here(run: Path, local: Path) -> bool:
    """Moves this host's part, if there is one; False while its processes run or somebody else moves it."""
    part = part_here(str(local))
    if not part.is_dir():
        return True
    with move.alone(part) as only:
        if not only or move.move(part, run / part.name):
            return False
    move.clean(part)
    return True


def gather_from_ray(run: Path, local: Path, address: str, say: Callable[[str], None]) -> list[str]:
    """Brings the parts of all nodes that can be reached; returns a sentence for each that cannot."""
    with nodes(local, address) as (asks, missing):
        for name, ask in asks.items():
            if name == os.uname().nodename:
                continue
            try:
                bring(run, ask)
                say(f"gathered {name}")
            except Exception as error:  # whatever happens to a node, the others are gathered
                missing.append(f"{name} could not be gathered ({type(error).__name__}); try again")
    return missing


@contextmanager
def nodes(local: Path, address: str) -> Iterator[tuple[dict[str, Ask], list[str]]]:
    """What runs a function on each living node of a Ray cluster, by host, with the folder of the parts as its first argument; and
    a sentence for each node that is lost."""
    try:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    except ImportError:
        raise CutawayError("Reading from a Ray cluster needs ray: pip install ray.") from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, ignore_reinit_error=True)
    except ConnectionError as error:
        raise CutawayError(
            f"No Ray cluster answers at {address} ({error}); start it, or name another address."
        ) from None

    def ask_on(node: dict[str, Any]) -> Ask:
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)

        def ask(function: Callable[..., Any], *args: Any) -> Any:
            task = ray.remote(function).options(num_cpus=0, scheduling_strategy=here, max_retries=2)
            return ray.get(task.remote(str(local), *args))

        return ask

    found = ray.nodes()  # type: ignore[no-untyped-call]
    alive = {node["NodeManagerHostname"]: ask_on(node) for node in found if node["Alive"]}
    lost = sorted({node["NodeManagerHostname"] for node in found} - alive.keys())
    sentence = "{} is lost, and with it everything it recorded since the last gather"
    try:
        yield alive, [sentence.format(name) for name in lost]
    finally:
        ray.shutdown()


def local_of(run: Path) -> Path:
    """Where the hosts of a run keep their parts."""
    about = read_object(run / "run.json")
    if not about:
        raise CutawayError(f"{run} is not a Cutaway run: it has no run.json; check the path.")
    options = about.get("options")
    return Path((isinstance(options, dict) and options.get("local")) or scratch(str(run)))


def part_here(local: str) -> Path:
    """On a node: what it recorded."""
    return Path(local, HOST + os.uname().nodename)


def bring(run: Path, ask: Ask) -> None:
    """Copies what one node has and this folder lacks; `ask` runs one of the functions below on the node."""
    part, listing = ask(list_part)
    goal = run / part
    for name, size, alive in listing:
        target = goal / name
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        grows = target.name in move.GROWING
        if grows or not alive:
            move.copy(target, size, lambda at, name=name: zlib.decompress(ask(read_piece, name, at)), grows)  # type: ignore[misc]
    if not any(alive for _, _, alive in listing):
        ask(remove_part, listing)


def list_part(local: str) -> tuple[str, Listing]:
    """On a node: the name of its part, and what is in it."""
    part = part_here(local)
    listing = []
    for folder in sorted(part.glob("p*-*")):
        alive = move.is_alive(folder)
        listing += [
            (f"{folder.name}/{f.name}", f.stat().st_size, alive) for f in folder.iterdir() if f.is_file()
        ]
    return part.name, listing


def read_piece(local: str, name: str, at: int) -> bytes:
    """On a node: a piece of a file."""
    with (part_here(local) / name).open("rb") as file:
        file.seek(at)
        return zlib.compress(file.read(PIECE), 1)


def remove_part(local: str, listing: Listing) -> None:
    """On a node: removes what has arrived, if it has not grown since."""
    part = part_here(local)
    for name, size, _ in listing:
        path = part / name
        if path.is_file() and path.stat().st_size == size:
            path.unlink()
    for folder in part.glob("p*-*"):
        if not any(folder.iterdir()):
            folder.rmdir()
