"""How many edits does a change take? Makes each of twelve changes where CONTRIBUTING.md points, tries it, counts, takes it back.

    python benchmarks/changes.py            in a clean checkout with Cutaway installed editable

An edit is a place in a file of ours that somebody must change by hand, or a file to add. Tests and docs are not counted.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "cutaway"
DEMO = """
import os, subprocess, sys, tempfile
from pathlib import Path
sys.path.insert(0, "tests/analysis")
from analysis_runs import write_demo
import cutaway
from cutaway.commands import main
scratch = Path(tempfile.mkdtemp())
demo = write_demo(scratch / "demo.cutaway")
def record(code, **env):
    (scratch / "program.py").write_text(code)
    run = str(scratch / "run.cutaway")
    command = [sys.executable, "-m", "cutaway", "run", "-q", "-o", run, str(scratch / "program.py")]
    subprocess.run(command, check=True, env={**os.environ, **env})
    return cutaway.open(run)
"""


@dataclass(frozen=True)
class Change:
    """A change: texts put before others (`edits`: file, anchor, text), files to add, and a program that shows that it works."""

    name: str
    shown_by: str
    edits: tuple[tuple[str, str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    def make(self) -> None:
        for file, anchor, text in self.edits:
            path = SRC / file
            before = path.read_text()
            assert anchor in before, (file, anchor)
            path.write_text(before.replace(anchor, text + anchor, 1))
        for file, text in self.files:
            (SRC / file).write_text(text)

    def works(self) -> bool:
        done = subprocess.run(
            [sys.executable, "-c", DEMO + self.shown_by], cwd=ROOT, capture_output=True
        )
        if done.returncode:
            print(done.stderr.decode()[-500:], file=sys.stderr)
        return done.returncode == 0

    def take_back(self) -> None:
        for file, _ in self.files:
            (SRC / file).unlink()
        changed = [str(SRC / file) for file, _, _ in self.edits]
        if changed:
            subprocess.run(["git", "checkout", "-q", "--", *changed], cwd=ROOT)


VERDICT = """class AlwaysHot(Rule):
    name = "hot"
    label = "HOT"
    when = "always"

    def holds(self, e: Evidence) -> bool:
        return True

    def because(self, e: Evidence) -> str:
        return "it is hot."

    def advice(self, e: Evidence) -> str:
        return "cool it"


"""
CARD = """from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.hooks import Rule

CARD = Card("mylib", rules=[Rule("mylib", "Learner", backpropagation="learn", update=True)])
"""
EXPORT = """def write(trace, file):
    for process in trace.processes:
        file.write(b"%d " % process.pid)
    return len(trace.processes)
"""
SECTION = """from typing import Any

from cutaway.drawing.markup import Markup, tag

from .section import Palette, Section, Source


def owls(of: Source) -> dict[str, Any]:
    return {"title": "Owls", "count": of.found.pace.steps}


def draw_owls(data: dict[str, Any], colours: Palette) -> Markup:
    return tag("p", f"{data['count']} owls")


SECTION = Section("owls", owls, draw_owls)
"""
NVML = """
from cutaway.record.meters import Nvml
class Api:
    NVML_CLOCK_SM = 0
    class NVMLError(Exception):
        pass
    def nvmlDeviceGetHandleByIndex(self, index):
        return index
    def nvmlDeviceGetCount(self):
        return 1
    def nvmlShutdown(self):
        pass
    def nvmlDeviceGetTemperature(self, handle, kind):
        return 61
    def __getattr__(self, name):
        def unknown(*given):
            raise self.NVMLError
        return unknown
assert Nvml(Api()).read() == [{"id": 0, "celsius": 61}]
"""
CHANGES = (
    Change(
        "a simulator",
        "from cutaway.record.layers import simulators\nassert 'mysim._core' in simulators.MODULES",
        edits=(
            (
                "record/layers/simulators.py",
                '    "pybullet": "pybullet",\n',
                '    "mysim._core": "mysim",\n',
            ),
        ),
    ),
    Change(
        "a verdict",
        "from cutaway.reports.digests import digest_at\n"
        "assert digest_at(demo).verdict.label == 'HOT' and main(['report', str(demo), '-o', str(scratch / 'p.html')]) in (0, None)",
        edits=(
            ("reports/rules/machine.py", "class TransferBound(Rule):", VERDICT),
            (
                "reports/rules/__init__.py",
                "    thin.Hang(),\n",
                "    machine.AlwaysHot(),\n",
            ),
        ),
    ),
    Change(
        "a framework",
        "(scratch / 'mylib.py').write_text('class Learner:\\n    def learn(self): return sum(range(1000))')\n"
        "run = record('import mylib\\nfor _ in range(20): mylib.Learner().learn()', PYTHONPATH=str(scratch))\n"
        "assert 'backpropagation' in run.operations()['operation'].tolist()",
        files=(("record/frameworks/cards/mylib.py", CARD),),
    ),
    Change(
        "an export format",
        "assert main(['export', str(demo), '-f', 'names', '-o', str(scratch / 'n.txt')]) == 0\n"
        "assert (scratch / 'n.txt').read_text().split()",
        edits=(
            (
                "trace/exports/__init__.py",
                '    "parquet": Format(',
                '    "names": Format("names", ".txt", "read it", f"{_HERE}.names:write"),\n',
            ),
        ),
        files=(("trace/exports/names.py", EXPORT),),
    ),
    Change(
        "a column of show",
        "import contextlib, io\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n"
        "    main(['show', str(demo), '--by', 'operation'])\n"
        "assert 'total' in out.getvalue()",
        edits=(
            (
                "reports/tables.py",
                'time("self_ns", "self"),',
                'time("total_ns", "total"), ',
            ),
        ),
    ),
    Change(
        "a meter (a quantity of a GPU)",
        NVML,
        edits=(
            (
                "record/meters.py",
                '            "own_memory": own_memory,\n',
                '            "celsius": lambda: api.nvmlDeviceGetTemperature(handle, 0),\n',
            ),
        ),
    ),
    Change(
        "an importer",
        "from cutaway.trace.imports import import_files\n(scratch / 'x').write_bytes(b'MINE')\n"
        "assert import_files([scratch / 'x'], scratch / 'o.cutaway') == ['mine']",
        edits=(
            (
                "trace/imports/formats.py",
                '    Format("rocpd", ',
                '    Format("mine", "a file of mine", lambda _, head: head.startswith(b"MINE")),\n',
            ),
        ),
        files=(
            (
                "trace/imports/mine.py",
                "def read(path, limits, progress):\n    return []\n",
            ),
        ),
    ),
    Change(
        "a GPU",
        "from cutaway.machines import gpu\nassert gpu.load('l4').name == 'L4'",
        files=(
            (
                "machines/gpus/l4.toml",
                (SRC / "machines/gpus/a100.toml").read_text().replace('"A100"', '"L4"'),
            ),
        ),
    ),
    Change(
        "the title of a layer",
        "from cutaway.vocabulary import drawn\nassert 'tensor ML backend' in str(drawn())",
        edits=(("vocabulary.py", 'ML backend", "#59a14f"', "tensor "),),
    ),
    Change(
        "a section of the page",
        "from cutaway.reports.page.data import page_data\nassert page_data(cutaway.open(demo))['sections']['owls']['title'] == 'Owls'\n"
        "main(['report', str(demo), '-o', str(scratch / 'p.html')])\nassert ' owls</p>' in (scratch / 'p.html').read_text()",
        edits=(
            (
                "reports/page/sections.py",
                '    "bars",\n',
                '    "owls",\n',
            ),
        ),
        files=(("reports/page/owls.py", SECTION),),
    ),
    Change(
        "a kind of wait",
        "run = record('import time\\nfor _ in range(5): time.sleep(0.02)')\nassert 'nap:0.02' in run.waits()['on'].tolist()",
        edits=(
            (
                "record/layers/waits.py",
                '    ("time", "", "sleep", ""),\n',
                '    ("time", "", "sleep", lambda given: f"nap:{given[0]}"),\n',
            ),
        ),
    ),
    Change(
        "a device counter",
        "from cutaway.analysis.hardware import measure\nassert measure({'my_hits': 50.0}, 'l2_hit') == 0.5",
        edits=(
            (
                "analysis/hardware.py",
                '    _percent("l2_hit", "L2CacheHit"),\n',
                '    _percent("l2_hit", "my_hits"),\n',
            ),
        ),
    ),
)


def main() -> int:
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "src"], cwd=ROOT, capture_output=True
    ).stdout
    if dirty:
        print("Commit first: the changes are taken back with git.")
        return 2
    failed = 0
    print("| change | places edited | files added | works |\n|---|---|---|---|")
    for change in CHANGES:
        change.make()
        try:
            works = change.works()
        finally:
            change.take_back()
        failed += not works
        says = "yes" if works else "no"
        print(
            f"| {change.name} | {len(change.edits)} | {len(change.files)} | {says} |",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
