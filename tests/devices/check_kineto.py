"""Whether the real Kineto reads from the CUPTI double what our collector reads from it (needs a network and 3 GB of disk):

    python tests/devices/check_kineto.py [VERSION OF TORCH …]

For each version, the CUDA build from PyPI is unpacked into a folder that is removed afterwards. Of CUDA's own libraries only
libcudart is real; the others, which nothing here calls, are empty, and libcupti is the double. Records of real GPUs
are sent through Kineto and through our collector: the events must be the same. Then a program that uses torch.profiler
itself is recorded: the hand-over of CUPTI between the two.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import double
from device_runs import Recorded, in_run, inject, read
from test_replay import pack, rows
from traces import BUNDLED, load

HERE = Path(__file__).parent
VERSIONS = ("2.6.0", "2.13.0")
HELPERS = (
    "typing_extensions",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "markupsafe",
    "fsspec",
    "filelock",
)
# Kineto maps ticks of the processor to time; so does the double, the other way round.
SLACK_NS, DRIFT = (
    2000,
    1e-4,
)
PART_NS = (
    2_000_000_000  # of each trace, from its end: the records are replayed in real time
)


class Cuda:
    """A CUDA build of PyTorch in a folder, with a device that is the double's."""

    def __init__(self, folder: Path, version: str) -> None:
        self.packages, self.libraries = folder / "packages", folder / "libraries"
        self.libraries.mkdir(parents=True)
        self._install(
            f"torch==={version}", *HELPERS
        )  # ===: not a build for the CPU of that version
        needed = self._needed()
        (runtime,) = [name for name in needed if name.startswith("libcudart.so.")]
        major = runtime.rpartition(".")[2]
        self._install(
            "nvidia-cuda-runtime-cu12<13"
            if major == "12"
            else f"nvidia-cuda-runtime=={major}.*"
        )
        for name in needed - {runtime}:
            self._empty(name)
        self.cupti = double.build(
            self.libraries / f"libcupti.so.{major}", f"libcupti.so.{major}"
        )
        self.shim = folder / "shim.so"
        subprocess.run(
            [
                "cc",
                "-shared",
                "-fPIC",
                str(HERE / "kineto_double/shim.c"),
                "-o",
                str(self.shim),
            ],
            check=True,
        )

    def environment(self) -> dict[str, str]:
        return {
            "PYTHONPATH": str(self.packages),
            "LD_LIBRARY_PATH": str(self.libraries),
            "LD_PRELOAD": str(self.shim),
            "CUTAWAY_CUPTI": str(self.cupti),
            "KINETO_LOG_LEVEL": "99",
        }

    def _install(self, *packages: str) -> None:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--upgrade",
            "--target",
        ]
        subprocess.run(
            [*pip, str(self.packages), *packages], check=True, capture_output=True
        )

    def _needed(self) -> set[str]:
        """The libraries of CUDA that PyTorch asks for."""
        files = list((self.packages / "torch/lib").glob("*.so*"))
        listed = subprocess.run(
            ["readelf", "-d", *files], check=True, capture_output=True, text=True
        ).stdout
        found = set(re.findall(r"NEEDED.*\[(lib(?:cu|nv|nccl)[^\]]*)\]", listed))
        return found - {file.name for file in files}

    def _empty(self, name: str) -> None:
        link = [
            "-x",
            "c",
            os.devnull,
            f"-Wl,-soname,{name}",
            "-o",
            str(self.libraries / name),
        ]
        subprocess.run(["cc", "-shared", "-fPIC", *link], check=True)


def check(folder: Path, version: str, trainer: Path) -> int:
    cuda = Cuda(folder, version)
    failures = 0
    for path in BUNDLED:
        failures += compare(folder, cuda, trainer, path)
    return failures + hand_over(folder, cuda, version)


def compare(folder: Path, cuda: Cuda, trainer: Path, path: Path) -> int:
    """Both read the records of one real trace."""
    given = rows(load(path))
    last = max(row["end"] for row in given)
    given = [row for row in given if row["start"] >= last - PART_NS]
    first = min(row["start"] for row in given)
    for row in given:
        row["start"], row["end"] = row["start"] - first + 1, row["end"] - first + 1
    file = folder / f"{path.name}.bin"
    file.write_bytes(b"".join(map(pack, given)))
    seen = kineto(cuda, file, (last - first) / 1e9 + 0.2)
    run = folder / f"{path.name}.cutaway"
    done = in_run(run, [str(trainer), "replay", str(file)], **inject(cuda.cupti))
    assert done.returncode == 0, done.stderr
    (ours,) = read(run)
    problems = [*differences(ours, seen), *classified(seen)]
    print(
        f"torch {seen['torch']}, {path.name}: {len(ours.work)} pieces of work and {len(ours.api)} calls "
        f"{'DIFFER' if problems else 'are the same'}"
    )
    print("".join(f"  {problem}\n" for problem in problems[:10]), end="")
    return len(problems)


def kineto(cuda: Cuda, file: Path, seconds: float) -> dict[str, Any]:
    command = [
        sys.executable,
        str(HERE / "kineto_double/child.py"),
        "replay",
        str(file),
    ]
    environment = {**os.environ, **cuda.environment(), "REPLAY_SECONDS": str(seconds)}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1], parse_float=Decimal)
    return seen


def differences(ours: Recorded, seen: dict[str, Any]) -> list[str]:
    """Between what our collector wrote and Kineto's file, event by event."""
    name = ours.process.log.name
    work = [
        (plain(name(int(w["name"]))), *place(w), *launch(w), *times(w))
        for w in ours.work
    ]
    calls = [(name(int(c["name"])), int(c["correlation"]), *times(c)) for c in ours.api]
    other_work, other_calls = [], []
    for event in seen["json"]:
        about = event.get("args", {})
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            where = (
                about["device"],
                about["stream"],
                about["correlation"],
                about.get("bytes", 0),
            )
            shape = (*about.get("grid", (0, 0, 0)), *about.get("block", (0, 0, 0)))
            used = (about.get("registers per thread", 0), about.get("shared memory", 0))
            other_work.append(
                (plain(event["name"]), *where, *shape, *used, *microseconds(event))
            )
        elif event.get("cat") in ("cuda_runtime", "cuda_driver"):
            other_calls.append(
                (event["name"], about["correlation"], *microseconds(event))
            )
    return [*apart("work", work, other_work), *apart("call", calls, other_calls)]


def classified(seen: dict[str, Any]) -> list[str]:
    """Between Kineto's file and what our Kineto route takes in process."""
    categories = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver")
    listed = [e for e in seen["json"] if e.get("cat") in categories]
    theirs = [(e["name"], e["args"]["correlation"], *microseconds(e)) for e in listed]
    taken = [
        (e["name"], e["correlation"], e["start"], e["end"])
        for e in (*seen["work"], *seen["calls"])
    ]
    return apart("in process", taken, theirs)


def apart(
    what: str, ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]
) -> list[str]:
    """Events that have no partner; the last two fields are times, which may lie anywhere but must agree among themselves."""
    if len(ours) != len(theirs) or not ours:
        return [f"{what}: {len(ours)} here, {len(theirs)} in Kineto"]
    first = min(t[-2] for t in theirs)
    shift = min(o[-2] for o in ours) - first
    out = []
    for mine, other in zip(
        sorted(ours, key=_order), sorted(theirs, key=_order), strict=True
    ):
        begins, lasts = (
            mine[-2] - other[-2] - shift,
            (mine[-1] - mine[-2]) - (other[-1] - other[-2]),
        )
        allowed = SLACK_NS + DRIFT * (other[-1] - first)
        if mine[:-2] != other[:-2] or max(abs(begins), abs(lasts)) > allowed:
            out.append(f"{what}: {mine} here, {other} in Kineto")
    return out


def _order(event: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*event[:-2], event[-2])


def plain(name: str) -> str:
    """Kineto says `Memcpy HtoD (Pageable -> Device)`; names of kernels are cut to what a record of the test holds."""
    return (
        re.sub(r" \(.*", "", name).lower()
        if name.lower().startswith(("memcpy", "memset"))
        else name
    )


def place(record: Any) -> tuple[int, ...]:
    return tuple(
        int(record[key]) for key in ("device", "stream", "correlation", "bytes")
    )


def launch(record: Any) -> tuple[int, ...]:
    shared = int(record["shared_static"]) + int(record["shared_dynamic"])
    return (
        *record["grid"].tolist(),
        *record["block"].tolist(),
        int(record["registers"]),
        shared,
    )


def times(record: Any) -> tuple[int, int]:
    return int(record["start"]), int(record["end"])


def microseconds(event: dict[str, Any]) -> tuple[int, int]:
    start = int(Decimal(event["ts"]) * 1000)
    return start, start + int(Decimal(event["dur"]) * 1000)


def hand_over(folder: Path, cuda: Cuda, version: str) -> int:
    """A program that uses torch.profiler itself: nothing is lost that one of the two clients was there to see."""
    run = folder / "hand_over.cutaway"
    environment = {**cuda.environment(), **inject(cuda.cupti)}
    command = [sys.executable, str(HERE / "kineto_double/child.py"), "hand-over"]
    done = in_run(run, command, **(environment | {"CUTAWAY": f"{run}?collector=cupti"}))
    assert done.returncode == 0, done.stderr
    (recorded,) = read(run)
    counts = {
        n: len(recorded.named(recorded.work, n))
        for n in ("before", "in_the_programs_window", "after")
    }
    print(f"torch {version}, hand-over: kernels seen {counts}")
    print("".join(f"  note: {note}\n" for note in recorded.process.log.notes), end="")
    wanted = (
        counts["before"] == counts["in_the_programs_window"] == 1
        and counts["after"] >= 10
    )
    return 0 if wanted else 1


def main(versions: tuple[str, ...]) -> int:
    failures = 0
    with tempfile.TemporaryDirectory(prefix="kineto-double-") as name:
        trainer = Path(name) / "trainer"
        subprocess.run(
            ["cc", "-O1", str(HERE / "trainer.c"), "-o", str(trainer), "-ldl"],
            check=True,
        )
        for version in versions:
            failures += check(Path(name) / version, version, trainer)
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or VERSIONS))
