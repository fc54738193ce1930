"""The rule that names unannotated time, on streams written by hand: one letter for each microsecond of a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway.trace.reader import read_run
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import REASONS, Kind, Mark, Why

pytestmark = pytest.mark.core

NAMES = (
    "simulation",
    "inference",
    "backpropagation",
    "replay",
    "sync",
    "evaluation",
    "checkpoint",
    "search",
    "training program",
    "rollout program",
    "mine",
)
OPERATIONS = {
    "S": "simulation",
    "B": "backpropagation",
    "R": "replay",
    "I": "inference",
    "C": "checkpoint",
    "W": "sync",
    "T": "search",
}
CALLS = {
    "s": "torch.Tensor.__setitem__",
    "u": "jax.jit(update)",
    "t": "jax.jit(step)",
    "m": "jax.jit(act)",
    "p": "mujoco.mj_step",
    "z": "ale_py.ALEInterface.loadROM",
    "w": "os.read",
    "v": "jax.ArrayImpl._value",
    "l": "jax.jit(collect)",
}
LAYERS = {"p": "simulator", "z": "simulator", "w": "wait"}


def write(path: Path, loop: str, unit: int = 1000) -> Path:
    """Capitals are operations of hooks (in brackets: the program's own), `n` a network, `g` one with gradients, `b` a batch about
    to be drawn, `r` a random action, `q` a gift to a queue, round brackets what a logger does, other small letters calls,
    digits change the environment, `.` is Python."""
    with RunWriter(path) as run:
        process = run.process(pid=7, name="train")
        ids = {name: process.name(name) for name in NAMES}
        calls = {
            k: process.call(layer=LAYERS.get(k, "backend"), fn=fn)
            for k, fn in CALLS.items()
        }
        for function, holds in (
            ("update", "update"),
            ("step", "step"),
            ("act", "network"),
            ("collect", "rollout"),
        ):
            process.log(
                "compiled", {"function": f"jax.jit({function})", "holds": holds}
            )
        process.log("channel", {"id": 1, "on": "queue:7:1"})
        for number, intervals in ((1, 10), (2, 1)):
            process.log(
                "environment", {"id": number, "name": "Env", "intervals": intervals}
            )
        rows: list[tuple[int, int, int, int]] = [(0, 0, Kind.BEGIN, 0)]
        time, annotated = 0, 0
        for letter in loop:
            if letter in "[]":
                annotated = letter == "["
            elif letter in OPERATIONS:
                name = ids[OPERATIONS[letter]]
                why = Why.ANNOTATED if annotated else Why.BY_FRAMEWORK
                rows += [
                    (time, why, Kind.OP_ENTER, name),
                    (time + unit, 0, Kind.OP_EXIT, name),
                ]
                rows += [(time + unit, 1, Kind.STEP, 0)] if letter == "S" else []
            elif letter.isdigit():
                rows.append((time, int(letter), Kind.MARK, Mark.ENVIRONMENT))
                continue
            elif letter == "i":
                rows.append((time, 2, Kind.ITERATION, 0))
                continue
            elif letter in "()":
                mark = Mark.LOG_BEGINS if letter == "(" else Mark.LOG_ENDS
                rows.append((time, 0, Kind.MARK, mark))
                continue
            elif letter == "q":
                rows.append((time + unit, 1, Kind.FEED, 1))
            elif letter in "ng":
                rows.append((time, int(letter == "g"), Kind.MARK, Mark.NETWORK_BEGINS))
                rows.append((time + unit, 0, Kind.MARK, Mark.NETWORK_ENDS))
            elif letter in "br":
                rows.append(
                    (time, 0, Kind.MARK, Mark.BATCH if letter == "b" else Mark.RANDOM)
                )
                time -= 0 if letter == "r" else unit
            elif letter in calls:
                rows.append((time, unit, Kind.CALL, calls[letter]))
            time += 0 if letter in "[]" else unit
        rows.append((time, 0, Kind.END, 0))
        process.thread(tid=7).write(
            *(np.array(column) for column in zip(*rows, strict=True))
        )
    return path


def named(path: Path, loop: str) -> str:
    """How many microseconds each operation got; `-` is unnamed."""
    table = cutaway.open(write(path, loop)).breakdown(by="operation")
    return " ".join(
        sorted(f"{row['operation'] or '-'}:{row['ns'] // 1000}" for row in table)
    )


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        (
            "S..n..S",
            "inference:5 simulation:2",
        ),  # nothing is stored: all of it leads to the action
        (
            "S.s.n.sS",
            "inference:4 replay:2 simulation:2",
        ),  # what is stored first is replay
        ("S.R.r.S", "inference:3 replay:2 simulation:2"),  # a random action is one, too
        # Loading a world steps nothing.
        ("z.nSn.S", "-:2 inference:3 simulation:2"),
        # Where a memory stores the step, assignments behind that are something else: noise in the weights, say.
        ("SR..s.n.S", "inference:6 replay:1 simulation:2"),
        # Some programs choose an action, update, and then take it. The first time, nobody knows.
        (
            "SR.n.bRB.SR.n.bRB.SR.n.bRB.S",
            "backpropagation:9 inference:6 replay:6 simulation:4",
        ),
        # Here the network before the batch prepares it: another one acts behind the update.
        (
            "SR.n.bRB.nSR.n.bRB.nS",
            "backpropagation:10 inference:2 replay:4 simulation:3",
        ),
        # Advantages and the loss lead to the update.
        (
            "S.s.n..B.B",
            "backpropagation:7 replay:2 simulation:1",
        ),
        # Target networks are no acting.
        (
            "SRbR.nnB.B..n.S",
            "backpropagation:8 inference:2 replay:2 simulation:2",
        ),
        (
            "S.n.Su..n.S",
            "backpropagation:3 inference:5 simulation:3",
        ),  # a compiled update is an update
        # The first result read after a compiled update waits for that update, also if a random action came before.
        ("S.nvSu..nvv.S", "backpropagation:4 inference:6 simulation:3"),
        ("S.nvSu.r.S.nv.S", "backpropagation:3 inference:8 simulation:4"),
        # The first result read after a compiled step is that step's, unless a network was called, too.
        ("tv.m.v.t", "inference:5 simulation:3"),
        ("tv.mv.tv.mv.t", "inference:8 simulation:5"),
        ("t.mv.t", "-:1 inference:3 simulation:2"),
        # Who acts and gives away a rollout prepares it before: that leads to no step.
        ("S..q.n.S", "inference:3 replay:3 simulation:2"),
        ("S.s.q.n.S", "inference:3 replay:4 simulation:2"),
        ("S.n.q.S", "inference:5 simulation:2"),  # what comes after the network may be
        (
            "S.(q).n.S",
            "-:1 inference:4 simulation:2",
        ),  # a logger's queue holds no rollouts
        ("S..qwS", "-:4 simulation:2"),  # an env worker gives its observation away
        # A network that is tried out while it is built leads to no step: nothing has been seen yet.
        ("g...S..n.S", "-:4 inference:4 simulation:2"),
        # A compiled rollout: who reads a result first waits for it, and for the update if that was called, too.
        ("l.vl.v", "-:2 rollout program:4"),
        ("l.vu.vl", "backpropagation:4 rollout program:3"),
        ("lu.v.lu", "backpropagation:4 rollout program:2 training program:1"),
        # What a logger does between others' work is nobody's.
        ("S.(.).s.n.S", "-:1 inference:3 replay:3 simulation:2"),
        ("B.(s.).B", "-:2 backpropagation:4"),
        # Handing over the weights ends an update.
        ("S.n.SB.W...n.S", "-:3 backpropagation:2 inference:5 simulation:3 sync:1"),
        # A search acts in a world of its own.
        ("B.B.T.T.T.g.B", "-:3 backpropagation:7 search:3"),
        ("p.n.p.n.p", "inference:6 simulation:3"),  # physics without gymnasium
        # The step that begins an iteration begins with its mark, but for what is done in between.
        ("S.n.i..S", "inference:3 simulation:4"),
        ("S.n.i.s.S", "inference:6 simulation:2"),
        ("S...S..S", "inference:5 simulation:3"),  # a table instead of a network
        (
            "p..p..p",
            "-:4 simulation:3",
        ),  # physics alone may be inside a step that nobody sees
        (
            "S..wS",
            "-:3 simulation:2",
        ),  # an env worker waits for its next command: nobody acts here
        ("..n...n.", "-:6 inference:2"),  # a server knows its networks only
        # The environment that is not trained on.
        (
            "1S.n.S2.n.S.n.S1.n.S",
            "-:1 evaluation:8 inference:5 simulation:3",
        ),
        # Between two updates many networks act in a world nobody sees: its time leads to no update.
        ("B.B." + "n.." * 20 + "g.B", "-:40 backpropagation:7 inference:20"),
        ("B.B." + "n.." * 4 + "g.B", "backpropagation:19"),  # a few are target networks
        (
            "B.B.b" + "n.." * 20 + "g.B",
            "backpropagation:67",
        ),  # for a batch that was drawn
        (
            "S.C.n.S",
            "checkpoint:1 inference:4 simulation:2",
        ),  # an operation inside keeps its time
    ],
)
def test_what_lies_between_two_anchors_is_named_by_what_it_leads_to(
    tmp_path: Path, loop: str, expected: str
) -> None:
    assert named(tmp_path / "run.cutaway", loop) == expected


def test_a_stretch_of_more_than_a_minute_is_decided_with_what_is_known(
    tmp_path: Path,
) -> None:
    # What comes after the first minute leads to the step; what came before nobody could wait for.
    run = cutaway.open(
        write(tmp_path / "run.cutaway", "S" + "s." * 40 + ".n.S", unit=1_000_000_000)
    )
    found = {
        row["operation"]: row["ns"] // 10**9 for row in run.breakdown(by="operation")
    }
    assert sum(found.values()) == 85
    assert (
        found["simulation"] == 2 and found["inference"] == 2 and found["replay"] == 61
    )


def test_next_to_what_the_program_annotated_nothing_is_named(tmp_path: Path) -> None:
    expected = "-:8 backpropagation:1 inference:1 simulation:3"
    assert named(tmp_path / "run.cutaway", "[S]..n..[S]..[B]..[S]") == expected


def test_every_stretch_says_why_it_has_its_name(tmp_path: Path) -> None:
    run = cutaway.open(write(tmp_path / "run.cutaway", "S.s.n.B.B..n.S"))
    found = {
        (r["operation"], r["why"]): r["ns"] // 1000
        for r in run.breakdown(by=("operation", "why"))
    }
    assert found == {
        ("simulation", REASONS[Why.BY_FRAMEWORK]): 2,
        ("replay", REASONS[Why.STORES_STEP]): 2,
        ("backpropagation", REASONS[Why.LEADS_TO_UPDATE]): 3,
        ("backpropagation", REASONS[Why.BY_FRAMEWORK]): 2,
        ("backpropagation", REASONS[Why.WITHIN_UPDATE]): 1,
        ("backpropagation", REASONS[Why.AFTER_UPDATE]): 2,
        ("inference", REASONS[Why.LEADS_TO_STEP]): 2,
    }


def test_one_update_is_one_operation_and_evaluation_makes_no_steps(
    tmp_path: Path,
) -> None:
    run = cutaway.open(write(tmp_path / "run.cutaway", "1S.n.S.n.B.B.B..n.S2.n.S.n.S"))
    counts = {row["operation"]: row["count"] for row in run.operations()}
    assert counts == {
        "simulation": 3,
        "inference": 2,
        "backpropagation": 1,
        "evaluation": 1,
    }
    assert run.swept.pace.steps.tolist() == [3]


def test_a_thread_that_was_killed_after_a_step_holds_nobody_up(tmp_path: Path) -> None:
    # Given a killed process: one thread's records stop after a step, the other one's go on for much longer.
    with RunWriter(tmp_path / "run.cutaway") as run:
        process = run.process(pid=7, name="train")
        step = {name: process.name(name) for name in NAMES}["simulation"]
        call = process.call(layer="backend", fn="torch.add")
        stopped = [
            (0, 0, Kind.BEGIN, 0),
            (1000, Why.BY_FRAMEWORK, Kind.OP_ENTER, step),
            (2000, 0, Kind.OP_EXIT, step),
            (2000, 1, Kind.STEP, 0),
        ]
        going = [
            (0, 0, Kind.BEGIN, 0),
            *((t * 1000, 500, Kind.CALL, call) for t in range(3, 10_000)),
        ]
        for tid, rows in ((7, stopped), (8, going)):
            process.thread(tid=tid).write(
                *(np.array(column) for column in zip(*rows, strict=True))
            )
    # When it is swept as a whole, and step by step beside other processes.
    found = cutaway.open(tmp_path / "run.cutaway")
    summary = found.summary()
    # Then the other thread is there to its end.
    assert found.threads()["traced_ns"].tolist() == [2000, 9_999_500]
    assert summary["n_cpu_op"] == 9997 and summary["cpu_op_ns"] == 9997 * 500


def test_a_resume_without_a_pause_keeps_events_in_order(tmp_path: Path) -> None:
    # Given a stream that has lost its pause: a call, then the resume, between two steps.
    with RunWriter(tmp_path / "run.cutaway") as run:
        process = run.process(pid=7, name="train")
        step = {name: process.name(name) for name in NAMES}["simulation"]
        call = process.call(layer="backend", fn="torch.add")
        rows = [
            (0, 0, Kind.BEGIN, 0),
            (1000, 500, Kind.CALL, call),
            (2000, 0, Kind.RESUME, 0),
            (3000, 500, Kind.CALL, call),
            (4000, Why.BY_FRAMEWORK, Kind.OP_ENTER, step),
            (5000, 0, Kind.OP_EXIT, step),
            (6000, 0, Kind.END, 0),
        ]
        process.thread(tid=7).write(
            *(np.array(column) for column in zip(*rows, strict=True))
        )
    # When it is read, then time does not go back, and no call is lost.
    (process,) = read_run(tmp_path / "run.cutaway").processes
    times = np.concatenate(
        [block["time"] for block in process.events(next(iter(process.threads)))]
    )
    assert (np.diff(times.astype(np.int64)) >= 0).all()
    found = cutaway.open(tmp_path / "run.cutaway")
    assert found.summary()["cpu_op_ns"] == 1000
    assert found.threads()["traced_ns"].tolist() == [6000]
