"""`cutaway run --metrics`: the figures of a run while it goes on, read by those who read them in practice."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cutaway.errors import CutawayError
from cutaway.reports.metrics import Figure, exposition, sinks

# Goes on until the file it is given has been rewritten often enough: no test depends on how fast this machine is.
PROGRAM = """
    import sys, time, cutaway
    for pass_ in range(10_000):
        cutaway.iteration()
        with cutaway.operation("simulation"):
            time.sleep(0.006)
            cutaway.step(4)
        with cutaway.operation('my "own"'):
            sum(range(20_000))
        if "3" in open(sys.argv[1]).read():
            break
"""


def start(
    folder: Path, *words: str, text: str = PROGRAM, **variables: str
) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(textwrap.dedent(text))
    (folder / "looks").write_text("0")
    environment = (
        {k: v for k, v in os.environ.items() if k != "CUTAWAY"}
        | {"OMP_NUM_THREADS": "1"}
        | variables
    )
    command = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        "-q",
        "-o",
        "run.cutaway",
        *words,
        "train.py",
        "looks",
    ]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ends(run: subprocess.Popen[str]) -> None:
    out, err = run.communicate(timeout=300)
    assert (run.returncode, out, err) == (0, "", "")


def read_prom(text: str) -> dict[tuple[str, ...], float]:
    """By name and values of the labels, as Prometheus' own parser reads it."""
    from prometheus_client.parser import text_string_to_metric_families

    found = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge" and family.documentation.endswith(".")
        for sample in family.samples:
            assert sample.labels.pop("run") == "run"
            found[(sample.name.removeprefix("cutaway_"), *sample.labels.values())] = (
                sample.value
            )
    return found


def test_a_prometheus_file_follows_the_run(tmp_path: Path) -> None:
    file = tmp_path / "node/run.prom"
    run = start(tmp_path, "--metrics", f"file={file}")
    seen: list[dict[tuple[str, ...], float]] = []
    while run.poll() is None:
        found = (
            read_prom(file.read_text()) if file.exists() else {}
        )  # never half a file
        if found and found not in seen:
            seen.append(found)
            (tmp_path / "looks").write_text(str(len(seen)))
        time.sleep(0.05)
    ends(run)
    last = read_prom(file.read_text())
    assert (
        len(seen) >= 3
        and seen[0][("seconds",)] < seen[1][("seconds",)] <= last[("seconds",)]
    )
    assert seen[1][("processes",)] == 1 and last[("processes",)] == 0
    assert (
        last[("iterations",)] > 1
        and last[("steps_per_second",)] > 0
        and last[("cores_busy",)] > 0
    )
    memory = [value for key, value in seen[1].items() if key[0] == "memory_bytes"]
    assert 4e6 < sum(memory) < 1e9
    shares = {key[-1]: value for key, value in last.items() if key[0] == "share"}
    assert set(shares) >= {"simulation", 'my "own"'}
    assert sum(shares.values()) == pytest.approx(1)
    (waiting,) = [value for key, value in last.items() if key[0] == "waiting"]
    assert 0 < waiting <= 1 and shares["simulation"] > 0.1
    assert [path.name for path in (tmp_path / "node").iterdir()] == [
        "run.prom"
    ]  # no temporary file is left


def test_tensorboard_reads_the_scalars(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = start(
        tmp_path, "--metrics", "tensorboard=board", "--metrics", "file=run.prom"
    )
    steps: set[str] = set()
    while run.poll() is None and len(steps) < 3:
        for line in (
            (tmp_path / "run.prom").read_text().splitlines()
            if (tmp_path / "run.prom").exists()
            else ()
        ):
            steps |= {line} if line.startswith("cutaway_seconds") else set()
        time.sleep(0.05)
    (tmp_path / "looks").write_text("3")
    ends(run)
    board = EventAccumulator(str(tmp_path / "board"))
    board.Reload()
    last = read_prom((tmp_path / "run.prom").read_text())
    rates = board.Scalars("cutaway/steps_per_second")
    assert rates[-1].value == pytest.approx(last[("steps_per_second",)], rel=1e-5)
    assert [rate.step for rate in rates] == sorted(rate.step for rate in rates)
    assert abs(rates[-1].wall_time - time.time()) < 600
    shares = [
        tag for tag in board.Tags()["scalars"] if tag.startswith("cutaway/share/")
    ]
    assert any(tag.endswith("/simulation") for tag in shares) and any(
        tag.endswith('/my "own"') for tag in shares
    )
    assert len(board.Scalars("cutaway/processes")) >= 3


WANDB = """
    import sys, time, cutaway, wandb
    run = wandb.init(mode="offline", project="test", settings=wandb.Settings(console="off", silent=True))
    for step in range(0, 100_000, 5):
        cutaway.iteration()
        with cutaway.operation("simulation"):
            time.sleep(0.01)
            cutaway.step(4)
        wandb.log({"loss": 1 / (step + 1)}, step=step)
        if step > 1000 and run.summary.get("cutaway/steps_per_second", 0) > 0:
            break
    wandb.finish()
"""


def test_the_programs_own_wandb_run_gets_them_beside_its_steps(tmp_path: Path) -> None:
    ends(start(tmp_path, "--metrics", "wandb", text=WANDB))
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    rows = list(history(file.read_bytes()))
    own = [(step, row["loss"]) for step, row in rows if "loss" in row]
    assert own == [
        (5 * i, pytest.approx(1 / (5 * i + 1))) for i in range(len(own))
    ]  # none lost, none moved
    assert all("loss" in row for _, row in rows[:-1])  # ours begin no step
    ours = [row for _, row in rows if "cutaway/seconds" in row]
    assert ours and ours == sorted(ours, key=lambda row: row["cutaway/seconds"])
    last = ours[-1]
    assert last["cutaway/steps_per_second"] > 0 and last["cutaway/cores_busy"] > 0
    assert any(
        name.startswith("cutaway/share/") and name.endswith("/simulation")
        for name in last
    )


def history(data: bytes) -> Iterator[tuple[int, dict[str, float]]]:
    """The rows of a W&B file: a log of LevelDB, whose records are protobuf."""
    import json

    from wandb.proto import wandb_internal_pb2

    at, record = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # full, or the last part
            message: Any = wandb_internal_pb2.Record()
            message.ParseFromString(record)
            record = b""
            if message.WhichOneof("record_type") == "history":
                items = {
                    i.key or "/".join(i.nested_key): json.loads(i.value_json)
                    for i in message.history.item
                }
                yield message.history.step.num, items


def test_top_and_show_work_on_such_a_run(tmp_path: Path) -> None:
    run = start(tmp_path, "--metrics", "wandb", "--metrics", "file=run.prom")
    while run.poll() is None and not (tmp_path / "run.cutaway/metrics.json").exists():
        time.sleep(0.05)
    top = [sys.executable, "-m", "cutaway", "top", "--once", "run.cutaway"]
    seen = subprocess.run(
        top, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    (tmp_path / "looks").write_text("3")
    ends(run)
    assert seen.returncode == 0 and "simulation" in seen.stdout
    show = [sys.executable, "-m", "cutaway", "show", "run.cutaway"]
    assert (
        "simulation"
        in subprocess.run(show, cwd=tmp_path, capture_output=True, text=True).stdout
    )


@pytest.mark.core
@pytest.mark.parametrize(
    "word", ["", "statsd=x", "tensorboard=", "file=a.txt", "wandb=x"]
)
def test_an_unknown_place_is_named_with_what_there_is(
    tmp_path: Path, word: str
) -> None:
    with pytest.raises(
        CutawayError, match=r"use tensorboard=DIR, file=PATH.prom or wandb"
    ):
        sinks([word], tmp_path)


@pytest.mark.core
def test_a_place_that_cannot_be_written_is_an_error_before_anything_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    run = start(tmp_path, "--metrics", "file=file/run.prom", text="open('ran', 'w')")
    _, err = run.communicate(timeout=300)
    assert (
        run.returncode == 1
        and "choose another path for --metrics" in err
        and len(err.splitlines()) == 1
    )
    assert not (tmp_path / "ran").exists() and not (tmp_path / "run.cutaway").exists()


@pytest.mark.core
def test_a_place_that_is_lost_does_not_harm_the_program(tmp_path: Path) -> None:
    text = "import shutil; shutil.rmtree('node'); print('trained'); raise SystemExit(3)"
    run = start(tmp_path, "--metrics", "file=node/run.prom", text=text)
    out, err = run.communicate(timeout=300)
    assert (run.returncode, out) == (3, "trained\n")
    assert "not all metrics were written" in err


def test_any_name_is_safe_in_the_prometheus_format() -> None:
    odd = 'a "b"\\\nc{}=,'
    figures = [
        Figure("share", 0.25, (("role", "x"), ("operation", odd))),
        Figure("cores_busy", 1e-9),
    ]
    found = read_prom(exposition(figures, "run"))
    assert found == {("share", "x", odd): 0.25, ("cores_busy",): 1e-9}
