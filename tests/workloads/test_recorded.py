"""The trainer under `cutaway run`: processes with roles, and who does and awaits what."""

import subprocess
import sys
from pathlib import Path

import pytest
from emulated import EMULATED

import cutaway
from cutaway.trace.reader import read_run
from cutaway_balance import observe

pytestmark = pytest.mark.core


def test_a_recording_shows_roles_env_stepping_waits_and_training(tmp_path):
    folder = str(tmp_path / "run.cutaway")
    program = [
        "-m",
        "cutaway_workloads.r2d2",
        "--env",
        "synthetic:300",
        "--actors",
        "2",
        "--steps",
        "1500",
    ]
    record = [sys.executable, "-m", "cutaway", "run", "-q", "-o", folder]
    command = [*record, *program, *EMULATED, "--emulate-device", "300,20,2000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    run = cutaway.open(folder)
    processes = run.processes()
    roles = dict(zip(processes["name"], processes["role"], strict=True))
    assert roles == {
        "learner": "learner",
        "inference": "inference",
        "actor-00": "actor",
        "actor-01": "actor",
    }
    number = dict(zip(processes["process"], processes["name"], strict=True))
    cells = run.breakdown(by=("process", "operation", "layer"))
    ns = {}
    for process, operation, layer, value in zip(
        *(cells[c] for c in ("process", "operation", "layer", "ns")), strict=True
    ):
        ns[number[process], operation, layer] = value
    # Which of the two was first to start, and did more, is the machine's affair.
    busier = max(
        ("actor-00", "actor-01"),
        key=lambda actor: ns.get((actor, "simulation", "python"), 0),
    )
    assert ns[busier, "simulation", "python"] > 100 * 300_000
    assert ns[busier, "inference_wait", "wait"] > 0
    assert ns["inference", "batch_wait", "wait"] > 0
    assert (
        ns["inference", "inference", "wait"] > 100 * 300_000
    )  # the accelerator's sleep
    assert ns["learner", "unroll_wait", "wait"] > 0
    assert ns["learner", "backpropagation", "wait"] > 10 * 2_000_000
    assert len(run.iterations()) > 10 and set(run.iterations()["process"]) == {
        list(roles).index("learner")
    }
    _, amounts, unit = observe.progress(observe.read(read_run(folder)), Path(folder))
    assert unit == "steps" and sum(amounts) >= 1500
