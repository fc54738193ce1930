"""What `cutaway show` prints, for every kind of run it can meet."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cutaway.calibration.costs import Cost, Costs
from cutaway.commands import main
from cutaway.reports import digests, terminal
from cutaway.reports.digest import SCHEMA
from cutaway.reports.evidence import Evidence, evidence
from cutaway.reports.parts import code
from cutaway.reports.rules import RULES
from cutaway.reports.tables import VIEWS, WITHOUT_LINES
from cutaway.trace import format as fmt
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
)

pytestmark = pytest.mark.core


def show(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> str:
    assert main(["show", str(path), *options]) == 0
    return capsys.readouterr().out


def test_the_summary_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = show(capsys, single(tmp_path / "r.cutaway"))
    lines = text.splitlines()
    assert lines[0] == "cutaway - train.py - 1 process"
    assert (
        lines[1]
        == "no accelerator recorded - 1.90 s steady state (after 100 ms of start-up)"
    )
    row = next(line for line in lines if line.startswith("simulation ")).split()
    assert row[-5:] == ["60", "%", "60.0", "20.0", "40.0"] or row[-6:] == [
        "60",
        "%",
        "60.0",
        "20.0",
        "40.0",
        "-",
    ]
    assert next(line for line in lines if line.startswith("total")).split()[:2] == [
        "total",
        "100.0",
    ]
    assert "SIMULATION-BOUND" in text and "Try: " in text and "estimate: +43 %" in text
    assert "80.0 steps/s" in text
    assert (
        "not corrected" in text
        and "0 events lost of" in text
        and "clock monotonic" in text
    )
    assert "torch 2.13.0" in text and lines[-1].startswith("next: cutaway report ")


def test_piped_text_is_plain_ascii_of_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = crowd(tmp_path / "r.cutaway", workers=20)
    for options in (
        (),
        ("--raw",),
        *(
            ("--by", by)
            for by in (
                "process",
                "operation",
                "layer",
                "callsite",
                "kernel",
                "transition",
                "wait",
            )
        ),
    ):
        text = show(capsys, path, *options)
        paths_aside = [line for line in text.splitlines() if str(path) not in line]
        assert text.isascii() and "\x1b" not in text, options
        assert max(map(len, paths_aside)) <= 80, options
        assert all(line == line.rstrip() for line in text.splitlines()), options


def test_a_terminal_gets_colours_and_no_color_takes_them_away(tmp_path: Path):
    path = single(tmp_path / "r.cutaway")
    code = "import sys; from cutaway.commands import main; sys.exit(main(sys.argv[1:]))"
    command = [
        "script",
        "-qec",
        f"{sys.executable} -c '{code}' show {path}",
        "/dev/null",
    ]
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "COLUMNS": "80"}
    env.pop("NO_COLOR", None)
    colourful = subprocess.run(
        command, env=env, capture_output=True, text=True, check=True
    ).stdout
    grey = subprocess.run(
        command,
        env={**env, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "\x1b[38;" in colourful and "█" in colourful
    assert "\x1b[38;" not in grey and "\x1b[3" not in grey and "█" in grey


def test_the_figures_of_the_steady_state_add_up(tmp_path: Path):
    digest = digests.digest_at(single(tmp_path / "r.cutaway", iterations=20))
    assert digest.total_ns == 19 * 100 * MS == digest.pace.steady_ns
    assert digest.pace.startup_ns == 100 * MS
    assert digest.operations() == {
        "simulation": 1140 * MS,
        "backpropagation": 380 * MS,
        "inference": 285 * MS,
        "": 95 * MS,
    }
    assert (digest.pace.unit, digest.pace.units, digest.pace.steps) == (
        "iteration",
        19,
        19 * 8,
    )


def test_pauses_of_calibration_shorten_iterations_and_do_not_lengthen_figures(
    tmp_path: Path,
):
    with RunWriter(tmp_path / "p.cutaway", source="cutaway run", cpus=2) as run:
        process, thread = begin(run, 100, "learner", "learner")
        records, stop = learner_records(process, 20)
        # 2 of the 5 ms outside operations, in each but the first.
        pauses = START + np.arange(1, 20) * 100 * MS + 96 * MS
        times = np.stack([pauses, pauses + 2 * MS], axis=1).ravel()
        both = np.concatenate(
            [
                records,
                fmt.records(
                    times,
                    0,
                    np.tile([Kind.PAUSE, Kind.RESUME], 19),
                    np.tile([1, 0], 19),
                ),
            ]
        )
        thread.append(both[np.argsort(both["time"], kind="stable")])
        process.exit(t=stop, code=0)
    digest = digests.digest_at(tmp_path / "p.cutaway")
    assert digest.pace.iterations == 19 and digest.pace.units == pytest.approx(
        19 * 0.98
    )
    assert digest.total_ns / digest.pace.units == pytest.approx(100 * MS)
    assert digest.pace.steps_per_second == pytest.approx(80)


def test_the_verdict_follows_the_waits_to_the_workers(tmp_path: Path):
    said = digests.digest_at(crowd(tmp_path / "r.cutaway", workers=4)).verdict
    assert said.rule == "simulation-bound-workers"
    assert "waits for 4 actor processes" in said.because and said.look == "wait"


def test_the_summary_is_about_the_learner_even_if_workers_count_more_iterations(
    tmp_path: Path,
):
    with RunWriter(tmp_path / "w.cutaway", source="cutaway run", cpus=2) as run:
        for pid, role, iterations in ((100, "learner", 10), (101, "env worker", 30)):
            process, thread = begin(run, pid, role, role)
            records, stop = learner_records(process, iterations)
            thread.append(records)
            process.exit(t=stop, code=0)
    assert digests.digest_at(tmp_path / "w.cutaway").main.role == "learner"


def test_a_worker_that_works_twice_as_long_is_a_straggler(tmp_path: Path):
    said = digests.digest_at(crowd(tmp_path / "r.cutaway", workers=4, slow=2)).verdict
    assert (
        said.rule == "straggler"
        and "env-02 computes 2.2 times the median" in said.because
    )


def test_a_worker_that_computes_as_much_as_the_others_is_no_straggler(tmp_path: Path):
    said = digests.digest_at(
        crowd(tmp_path / "r.cutaway", workers=4, slow=2, computes=False)
    ).verdict
    assert said.rule == "simulation-bound-workers"


def test_oversubscription_is_seen_in_the_samples(tmp_path: Path):
    with RunWriter(
        tmp_path / "o.cutaway", command="train.py", source="cutaway run", cpus=2
    ) as run:
        for pid in range(100, 104):
            process, thread = begin(run, pid, f"w{pid}", "actor")
            records, stop = learner_records(process, 20)
            thread.append(records)
            add_samples(process, pid, stop, cpu=0.5, queue=0.5)
            process.exit(t=stop, code=0)
    said = digests.digest_at(tmp_path / "o.cutaway").verdict
    assert said.rule == "cpu-oversubscription"
    assert (
        "4 threads in 4 processes share 2 cores: 3.8 want to run at once, and they wait 50 %"
        in said.because
    )


def test_only_a_framework_that_runs_the_loop_gets_its_settings_named(tmp_path: Path):
    # Given a program that imports Stable-Baselines3 for its replay buffer, and one that calls learn(); RLlib imports JAX.
    versions = {"stable-baselines3": "2.9", "torch": "2.13", "jax": "0.9"}
    found = digests.digest_at(single(tmp_path / "r.cutaway"))
    digest = replace(found, program=replace(found.program, versions=versions))

    def sampled(**packages: float) -> Evidence:
        return evidence(replace(digest, code=replace(digest.code, packages=packages)))

    own = sampled(torch=0.6, stable_baselines3=0.05)
    framework = sampled(torch=0.6, stable_baselines3=0.99)
    assert own.libraries == {"torch"} and framework.libraries == {
        "torch",
        "stable_baselines3",
    }
    assert evidence(digest).libraries == {
        "stable_baselines3",
        "torch",
        "jax",
    }  # nothing was sampled


def test_no_verdict_on_a_short_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = show(capsys, single(tmp_path / "r.cutaway", iterations=3))
    assert "NO VERDICT" in text and "too little for a verdict" in " ".join(
        text.replace("|", " ").split()
    )


def test_corrected_figures_carry_their_error(tmp_path: Path):
    run = digests.open_run(single(tmp_path / "r.cutaway"))
    run.costs = Costs(inside={"call": Cost(2.0 * MS, 1.0 * MS, 3.0 * MS)})
    digest = digests.digest_of(run)
    out = io.StringIO()
    terminal.print_summary(digest, out)
    assert (
        digest.trust.correction is not None
        and digest.trust.correction.removed == pytest.approx(6 / 100)
    )
    assert "overhead removed: 6.0 +- 3.0 % of the recorded time" in out.getvalue()
    header = next(
        line for line in out.getvalue().splitlines() if line.startswith("operation")
    )
    assert header.split()[-1] == "+-"
    raw = io.StringIO()
    terminal.print_summary(digest, raw, raw=True)
    assert "raw figures" in raw.getvalue() and "100.0" in raw.getvalue()


def test_json_has_the_documented_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    said = json.loads(show(capsys, crowd(tmp_path / "r.cutaway"), "--json"))
    assert said["schema"] == SCHEMA == "cutaway.show/3"
    manual = (Path(__file__).parents[2] / "docs" / "show.md").read_text(
        encoding="utf-8"
    )
    assert [key for key in said if f"`{key}`" not in manual] == []
    assert sum(cell["ns"] for cell in said["cells"]) == 1_900 * MS
    assert said["verdict"]["rule"] == "simulation-bound-workers"


@pytest.mark.parametrize(
    "by", ["process", "operation", "layer", "callsite", "kernel", "transition", "wait"]
)
def test_json_of_a_view(tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str):
    said = json.loads(show(capsys, crowd(tmp_path / "r.cutaway"), "--json", "--by", by))
    assert said["by"] == by and bool(said["rows"]) == (by != "kernel")


def test_device_time_stands_with_the_operation_that_launched_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = with_device(tmp_path / "d.cutaway")
    text = show(capsys, path)
    assert "Test GPU" in text and "GPU busy 20 % (nvidia-smi would say 100 %)" in text
    header = next(
        line for line in text.splitlines() if line.startswith("operation")
    ).split()
    row = next(
        line for line in text.splitlines() if line.startswith("backpropagation")
    ).split()
    assert header[-1] == "GPU" and row[-1] == "20.0"
    kernels = json.loads(show(capsys, path, "--by", "kernel", "--json"))["rows"]
    assert [(k["name"], k["operation"], k["count"]) for k in kernels] == [
        ("sgemm", "backpropagation", 19)
    ]


def test_names_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    evil = "\x1b]0;owned\x07[red]bold[/red]\u202e"
    text = show(capsys, single(tmp_path / "r.cutaway", name=evil, operation=evil))
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
    assert "[red]bold" in text  # not taken for markup


def failing(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    assert main(["show", str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err


def test_what_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "There is no run at" in failing(capsys, tmp_path / "absent.cutaway")
    (tmp_path / "folder").mkdir()
    assert "is not a Cutaway run" in failing(capsys, tmp_path / "folder")
    (tmp_path / "file").write_text("x")
    assert "is not a Cutaway run" in failing(capsys, tmp_path / "file")


def test_an_empty_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    RunWriter(tmp_path / "e.cutaway", source="cutaway run").close()
    assert "is empty: no process recorded anything" in failing(
        capsys, tmp_path / "e.cutaway"
    )


def test_a_process_that_recorded_no_event(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with RunWriter(tmp_path / "n.cutaway", source="cutaway run") as run:
        begin(run, 1, "main", "")
    assert "NO VERDICT" in show(capsys, tmp_path / "n.cutaway")


def test_a_killed_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with RunWriter(tmp_path / "k.cutaway", source="cutaway run") as run:
        process, thread = begin(run, 100, "learner", "learner")
        records, stop = learner_records(process, 20)
        thread.append(records)
        process.exit(t=stop, signal=int(signal.SIGKILL))
    text = " ".join(show(capsys, tmp_path / "k.cutaway").split())
    assert "The program was killed by SIGKILL." in text


def test_a_killed_command_that_could_not_say_so_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = single(
        tmp_path / "k.cutaway", finish=False, pid=99_999_999
    )  # no process has such an id
    assert "The program was killed. The figures" in " ".join(show(capsys, path).split())
    (path / "exit.json").write_text('{"signal": 9, "t": 1}')
    text = " ".join(show(capsys, path).split())
    assert "The program was killed by SIGKILL." in text
    (path / "exit.json").write_text('{"code": 0, "t": 1}')
    assert "was killed" not in show(capsys, path)


def test_a_run_that_is_being_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with RunWriter(tmp_path / "l.cutaway", source="cutaway run") as run:
        process, thread = begin(run, os.getpid(), "learner", "learner")
        thread.append(learner_records(process, 20)[0])
    text = " ".join(show(capsys, tmp_path / "l.cutaway").split())
    assert (
        "This run is still recording. You see its figures so far; watch it with `cutaway top"
        in text
    )


def test_losses_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = single(tmp_path / "r.cutaway")
    with RunWriter(tmp_path / "l.cutaway", source="cutaway run") as run:
        process, thread = begin(run, 100, "learner", "learner")
        records, stop = learner_records(process, 20)
        thread.append(records)
        process.log("loss", {"what": "disk full", "n": 17, "t": START})
        process.exit(t=stop, code=0)
    text = " ".join(show(capsys, tmp_path / "l.cutaway").split())
    assert "Data is missing (17 events)" in text and "17 events lost of" in text
    assert "Data is missing" not in show(capsys, path)


def test_what_cutaway_run_prints_at_its_end(tmp_path: Path):
    out = io.StringIO()
    terminal.print_verdict(single(tmp_path / "r.cutaway"), out)
    assert (
        "SIMULATION-BOUND" in out.getvalue()
        and "wrote " in out.getvalue().splitlines()[-1]
    )


def test_a_second_thread_that_works_is_named_and_an_idle_one_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.cutaway"
    with RunWriter(
        path, command=["python", "train.py"], source="cutaway run", cpus=2
    ) as run:
        process, thread = begin(run, 100, "learner", "learner")
        records, stop = learner_records(process, 20)
        thread.append(records)
        replay = process.name("replay")
        for tid, name, busy in ((201, "batcher", 30), (202, "logger", 1)):
            starts = np.arange(START, stop - 100 * MS, 100 * MS)
            call = process.call(
                layer="wait", fn="get", file="train.py", line=3, func="draw"
            )
            time = np.stack(
                [starts, starts + busy * MS, starts + busy * MS + 1], axis=1
            ).ravel()
            kind = np.tile([Kind.OP_ENTER, Kind.OP_EXIT, Kind.CALL], len(starts))
            value = np.tile([0, 0, (100 - busy) * MS - 2], len(starts))
            process.thread(tid=tid, name=name, t=START).append(
                fmt.records(
                    time, value, kind, np.tile([replay, replay, call], len(starts))
                )
            )
        process.exit(t=stop, code=0)
    text = " ".join(show(capsys, path).split())
    assert (
        "2 threads work. This is MainThread; beside it: batcher (28 % busy, mostly replay)."
        in text
    )
    first, second = json.loads(show(capsys, path, "--json"))["threads"]
    assert (first["name"], second["name"], second["mostly"]) == (
        "MainThread",
        "batcher",
        "replay",
    )
    assert second["busy"] == pytest.approx(0.284, abs=0.001)
    assert "threads work" not in show(capsys, single(tmp_path / "one.cutaway"))


def test_a_framework_that_runs_from_a_clone_counts_like_an_installed_one() -> None:
    loops = {"stable_baselines3", "ray.rllib"}
    assert (
        code._package("/x/lib/python3.11/site-packages/torch/nn/modules.py", loops)
        == "torch"
    )
    assert (
        code._package("/usr/lib/python3/dist-packages/numpy/core.py", loops) == "numpy"
    )
    assert (
        code._package("/me/stable-baselines3/stable_baselines3/ppo/ppo.py", loops)
        == "stable_baselines3"
    )
    assert (
        code._package("/me/ray/python/ray/rllib/algorithms/ppo.py", loops)
        == "ray.rllib"
    )
    assert code._package("/me/project/train.py", loops) == ""


@pytest.mark.parametrize(
    ("make", "by", "then"),
    [
        (crowd, "process", "wait"),
        (single, "process", "line"),
        (single, "operation", "line"),
        (single, "layer", "line"),
    ],
)
def test_a_table_without_lines_sends_on_to_one_that_has_them(
    make: Callable[[Path], Path],
    by: str,
    then: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Given a run whose main process waits for others, and one that works alone.
    path = make(tmp_path / "r.cutaway")
    assert main(["show", str(path), "--by", by]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"why:  cutaway show {path} --by {then}"


def test_whatever_a_verdict_tells_to_look_at_leads_to_a_line() -> None:
    named = ("counter", "kernel", "transition", "line", "callsite")
    asked = {rule.look for rule in RULES}
    assert asked <= {*named, *WITHOUT_LINES} and asked <= VIEWS.keys()
