"""Reports as people meet them: narrow and wide terminals, ASCII, names that look alike, lines that are ranked."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import cutaway
from cutaway.analysis.exports import export
from cutaway.calibration.costs import Cost, Costs
from cutaway.commands import main
from cutaway.record.folder import default_name
from cutaway.reports import digests, lines, screen, terminal
from cutaway.reports.live import LiveRun
from cutaway.reports.page.data import page_data
from cutaway.reports.printer import Printer
from cutaway.reports.tables import VIEWS, print_view
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

from .runs import (
    MS,
    START,
    add_samples,
    begin,
    crowd,
    learner_records,
    single,
    with_device,
    worker_records,
)

pytestmark = pytest.mark.core


class Narrow(io.StringIO):
    """A terminal that shows UTF-8."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def in_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> Printer:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return Printer(Narrow())


def plain(p: Printer) -> str:
    file = p.console.file
    assert isinstance(file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())


def line(
    yours: str, at: int, inner: str, native: str, ns: int, library: str = ""
) -> dict[str, object]:
    """A row of `Run.lines`: time in `inner`, below line `at` of `yours`."""
    file = library or yours
    where = {
        "function": inner,
        "file": file,
        "line": 7 if library else at,
        "native": native,
    }
    own = {"your_function": "main", "your_file": yours, "your_line": at if yours else 0}
    return {
        **where,
        **own,
        "operation": "backpropagation",
        "layer": "python",
        "ns": ns,
        "samples": 1,
        "error_ns": 3,
    }


def test_a_line_has_one_row_with_its_total() -> None:
    parts = [
        line("/me/c51.py", 226, "main", "", 80),
        line("/me/c51.py", 100, "main", "run_backward", 100),
        line("/me/c51.py", 226, "<listcomp>", "torch.sum", 70),
        line("/me/c51.py", 226, "main", "torch.add", 60),
        line(
            "/me/c51.py", 226, "forward", "", 10, library="/x/site-packages/torch/nn.py"
        ),
        line("/me/c51.py", 40, "main", "", 200),
    ]
    rows = lines.ranked(parts, total=520)
    assert [(row["line"], row["ns"]) for row in rows] == [
        (226, 220),
        (40, 200),
        (100, 100),
    ]
    assert [call["inside"] for call in rows[0]["calls"]] == [
        "",
        "torch.sum",
        "torch.add",
        "forward",
    ]
    assert (
        rows[0]["error_ns"] == 6
        and rows[0]["samples"] == 4
        and rows[0]["share"] == 220 / 520
    )


def test_where_a_framework_runs_the_loop_its_lines_are_ranked() -> None:
    library = "/x/site-packages/sb3/ppo.py"
    parts = [
        line("/me/train.py", 48, "train", "run_backward", 500, library=library),
        line(
            "/me/train.py",
            48,
            "collect",
            "",
            300,
            library="/x/site-packages/sb3/policy.py",
        )
        | {"operation": "inference"},  # a loop does more than one thing
        line("/me/train.py", 48, "train", "torch.add", 100, library=library),
        line("/me/train.py", 12, "main", "", 100),
        line("", 0, "train", "", 50, library=library),
    ]
    rows = lines.ranked(parts, total=1050)
    assert [(row["file"], row["line"], row["ns"]) for row in rows] == [
        (library, 7, 650),
        ("/x/site-packages/sb3/policy.py", 7, 300),
        ("/me/train.py", 12, 100),
    ]
    assert [row["library"] for row in rows] == [True, True, False]


def test_show_lists_calls_below_a_line_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(single(tmp_path / "r.cutaway"))
    assert main(["show", path, "--by", "line"]) == 0
    short = capsys.readouterr().out
    assert main(["show", path, "--by", "line", "--calls"]) == 0
    long = capsys.readouterr().out
    assert short.count("native_simulation") == 1 and len(long.splitlines()) > len(
        short.splitlines()
    )
    places = [
        found.split()[0] for found in short.splitlines() if ".py:" in found.split()[0]
    ]
    assert places and len(places) == len(set(places))
    assert main(["show", path, "--calls"]) == 2


def workers(path: Path, count: int = 3) -> Path:
    """A learner, workers with long names that differ in their number, and a process that only helps."""
    with RunWriter(
        path, command=["python", "train.py"], source="cutaway run", cpus=8
    ) as run:
        process, thread = begin(run, 100, "learner", "learner")
        records, stop = learner_records(process, 20, wait_on="socket:21733")
        thread.append(records)
        add_samples(process, 100, stop)
        process.exit(t=stop, code=0)
        for i in range(count):
            worker, thread = begin(
                run, 101 + i, f"Worker<AsyncVectorEnv>-{i}", "", ppid=100
            )
            thread.append(worker_records(worker, stop))
            worker.exit(t=stop, code=0)
        helper, thread = begin(run, 300, "-c", "", ppid=100)
        thread.write([START, stop], 0, [Kind.BEGIN, Kind.END], 0)
        helper.exit(t=stop, code=0)
        other, thread = begin(run, 301, "logger", "", ppid=100)
        thread.write([START, stop], 0, [Kind.BEGIN, Kind.END], 0)
        other.exit(t=stop, code=0)
    return path


def test_names_keep_their_number_and_helpers_stand_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = workers(tmp_path / "r.cutaway")
    assert main(["show", str(path)]) == 0
    text = capsys.readouterr().out
    assert "5 processes (1 learner, 3 env workers, 1 other) and 1 helper" in " ".join(
        text.split()
    )
    names = re.findall(r"^Worker<\S+>-\d", text, re.MULTILINE)
    assert len(set(names)) == 3 and "1 x helper" in text and "\n-c" not in text


def test_the_page_shows_no_lane_for_a_helper(tmp_path: Path) -> None:
    data = page_data(cutaway.open(workers(tmp_path / "r.cutaway")))["sections"]
    assert "-c" not in data["lanes"]["rows"] and len(data["lanes"]["rows"]) == 5
    assert data["lanes"]["title"].startswith("What 5 processes (without 1 helper) did")
    assert [row["name"] for row in data["tree"]["rows"]].count("1 × helper") == 1


def test_top_and_show_use_one_word_for_a_role(tmp_path: Path) -> None:
    path = workers(tmp_path / "r.cutaway")
    live = LiveRun(path)
    live.refresh()
    shown = {
        process.name: process.role for process in digests.digest_at(path).processes
    }
    assert {process.name: process.role for process in live.processes.values()} == shown
    assert len(live.working()) == 5


def test_waits_are_on_things_not_on_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(workers(tmp_path / "r.cutaway")), "--by", "wait"]) == 0
    text = capsys.readouterr().out
    assert (
        "socket" in text
        and "21733" not in text
        and "pipe" in text
        and "77" not in text.split("pipe")[1][:8]
    )


def test_a_command_for_python_names_its_run_after_python() -> None:
    assert default_name([sys.executable, "-c", "print(1)"]).startswith("python")


@pytest.mark.parametrize("columns", [60, 80, 110])
def test_no_number_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    paths = crowd(tmp_path / "c.cutaway"), with_device(tmp_path / "d.cutaway")
    for path in paths:
        digest = digests.digest_at(path)
        wide = in_terminal(monkeypatch, 1000)
        terminal.print_summary(digest, wide.console.file)  # type: ignore[arg-type]
        p = in_terminal(monkeypatch, columns)
        terminal.print_summary(digest, p.console.file)  # type: ignore[arg-type]
        figures = re.compile(r"\d+\.\d+(?= |$)|\d+ %", re.MULTILINE)
        assert sorted(figures.findall(tables_of(plain(p)))) == sorted(
            figures.findall(tables_of(plain(wide)))
        )
        for by in VIEWS:
            p = in_terminal(monkeypatch, columns)
            print_view(p, cutaway.open(path).steady(), digest, by)
            body = [row for row in plain(p).splitlines()[2:] if not a_command(row)]
            assert all(len(row) <= columns for row in body), (by, body)


def a_command(row: str) -> bool:
    """What to type next is printed whole, however long the path to the run is."""
    return row.startswith("why:  cutaway ")


def tables_of(text: str) -> str:
    """What stands below the verdict, without sentences that are broken into lines."""
    rows = text.partition("╰")[2].splitlines()
    return "\n".join(
        row.rstrip() for row in rows if re.search(r"\d$|%|–$", row.rstrip())
    )


def test_top_uses_a_wide_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    file = Narrow()
    screen.print_once(LiveRun(workers(tmp_path / "r.cutaway")), file)
    rows = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).splitlines()
    lane = next(row for row in rows if row.startswith("Worker<"))
    assert len(lane.rstrip()) > 180 and lane.startswith("Worker<AsyncVectorEnv>-0 ")


VERBS = (
    "run --help", "attach --help", "show --help", "report --help", "diff --help", "compare --help", "export --help",
    "import --help", "query --help", "top --help", "gather --help", "calibrate --help", "doctor", "balance --help",
    "show RUN", "show RUN --by line", "show RUN --by wait", "show RUN --over-time", "diff RUN RUN", "compare RUN RUN", "top RUN",
    "query RUN select(chr(8594))",
)  # fmt: skip


def test_a_terminal_without_our_signs_gets_ascii(tmp_path: Path) -> None:
    path = single(tmp_path / "r.cutaway", name="lerner→1")
    code = (
        "import sys, shlex; from cutaway.commands import main\n"
        "for words in sys.argv[1:]:\n"
        "    try: main(shlex.split(words))\n"
        "    except SystemExit as e: assert not e.code, words\n"
    )
    verbs = [verb.replace("RUN", str(path)) for verb in VERBS]
    verbs[-1] = f"query {path} 'SELECT chr(8594) AS a'"
    env = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *verbs],
        env=env,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.isascii() and b"Traceback" not in done.stderr


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    path = single(tmp_path / "r.cutaway")
    code = f"import sys; from cutaway.commands import main; sys.exit(main(['show', {str(path)!r}]))"
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "cannot be written (No space left on device)" in done.stderr


def test_an_unknown_collector_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(
            ["run", "--collector", "foo", "-o", str(tmp_path / "r.cutaway"), "train.py"]
        )
    assert stopped.value.code == 2 and "use one of auto" in capsys.readouterr().err
    assert not (tmp_path / "r.cutaway").exists()


def test_every_figure_is_written_and_private(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (str(single(tmp_path / f"{name}.cutaway")) for name in "ab")
    figures = [tmp_path / "one.svg", tmp_path / "two.svg"]
    options = [word for figure in figures for word in ("--figure", str(figure))]
    assert main(["compare", a, b, *options]) == 0
    assert all(figure.stat().st_mode & 0o777 == 0o600 for figure in figures)
    assert capsys.readouterr().out.count("wrote ") == 2


def test_nvidia_smi_is_not_said_of_other_makers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = with_device(tmp_path / "r.cutaway")
    assert digests.digest_at(path).machine.nvidia_smi is not None
    log = next(path.glob("p*/log.jsonl"))
    for name in ("AMD Instinct MI350X", "/device:TPU:0"):
        with RunWriter(tmp_path / f"{len(name)}.cutaway") as run:
            process, thread = begin(run, 100, "learner", "learner")
            thread.append(learner_records(process, 20)[0])
            process.log("device", {"id": 0, "name": name, "t": START})
            process.device(cutaway.open(path).trace.processes[0].device())
        other = tmp_path / f"{len(name)}.cutaway"
        assert digests.digest_at(other).machine.nvidia_smi is None
        assert main(["show", str(other)]) == 0
        out = capsys.readouterr().out
        assert "GPU busy" in out and "nvidia-smi" not in out
    assert log.is_file()


def test_call_sites_that_only_wait_are_told_as_such(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "r.cutaway") as run:
        process, thread = begin(run, 100, "main", "")
        call = process.call(
            layer="wait", fn="time.sleep", file="/me/a.py", line=3, func="main"
        )
        times, kinds = (
            [START, START + MS, START + 9 * MS],
            [Kind.BEGIN, Kind.CALL, Kind.END],
        )
        thread.write(times, [0, 5 * MS, 0], kinds, [0, call, 0])
        process.exit(t=START + 9 * MS, code=0)
    found = page_data(cutaway.open(tmp_path / "r.cutaway"))["sections"]["callsites"]
    assert not found["rows"] and found["empty"].startswith(
        "All 1 call site recorded are waits"
    )


def test_call_sites_add_up_to_their_layer(tmp_path: Path) -> None:
    run = cutaway.open(single(tmp_path / "r.cutaway"))
    run.costs = Costs(inside={"call": Cost(1234.5, 1000.0, 1500.0)})
    layers = {
        row["layer"]: row["ns"]
        for row in run.breakdown(by="layer")
        if row["layer"] != "python"
    }
    found = run.callsites()
    assert (
        layers
        and {layer: int(found.where(layer=layer)["ns"].sum()) for layer in layers}
        == layers
    )
    assert layers["simulator"] == 20 * 40 * MS - 20 * 1234.5


@pytest.mark.parametrize("kind", ["chrome", "speedscope"])
def test_slices_do_not_reach_over_pauses(tmp_path: Path, kind: str) -> None:
    with RunWriter(tmp_path / "r.cutaway") as run:
        process, thread = begin(run, 100, "main", "")
        outer, inner = process.name("outer"), process.name("simulation")
        rows = [
            (0, Kind.BEGIN, 0), (0, Kind.OP_ENTER, outer), (1, Kind.OP_ENTER, inner), (6, Kind.PAUSE, 1),
            (12, Kind.OP_EXIT, inner), (16, Kind.RESUME, 0), (17, Kind.OP_ENTER, inner), (22, Kind.OP_EXIT, inner),
            (23, Kind.OP_EXIT, outer), (24, Kind.END, 0),
        ]  # fmt: skip
        times, kinds, ids = zip(*rows, strict=True)
        thread.write([START + t * MS for t in times], 0, list(kinds), list(ids))
        process.exit(t=START + 24 * MS, code=0)
    export(tmp_path / "r.cutaway", kind, tmp_path / "out.json")
    found = (chrome_slices if kind == "chrome" else speedscope_slices)(
        tmp_path / "out.json"
    )
    assert sorted(found) == [
        ("outer", 6),
        ("outer", 7),
        ("simulation", 5),
        ("simulation", 5),
    ]


def chrome_slices(path: Path) -> list[tuple[str, int]]:
    stack, found = [], []
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["ph"] == "B":
            stack.append(event)
        elif event["ph"] == "E":
            begun = stack.pop()
            found.append((begun["name"], round((event["ts"] - begun["ts"]) / 1000)))
    assert not stack
    return found


def speedscope_slices(path: Path) -> list[tuple[str, int]]:
    told = json.loads(path.read_text())
    names, found = [frame["name"] for frame in told["shared"]["frames"]], []
    for profile in told["profiles"]:
        stack: list[dict[str, int]] = []
        for event in profile.get("events", ()):
            if event["type"] == "O":
                stack.append(event)
            else:
                begun = stack.pop()
                found.append(
                    (names[begun["frame"]], round((event["at"] - begun["at"]) / MS))
                )
    return found
