"""Python stacks are sampled without the program's help, and divide the exact time of each cell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import cutaway as command
from recorded import script

import cutaway

pytestmark = pytest.mark.core

WORK = """
    import threading

    import cutaway
    from cutaway import _recorder

    def spin(n):
        total = 0
        for i in range(n):
            total += i * i
        return total

    def three(n):
        spin(3 * n)

    def one(n):
        spin(n)

    def yielding():
        for _ in range(3):
            spin(2000)
            yield

    def work():
        while _recorder.stats()["stack_samples"] < wanted:
            with cutaway.operation("uneven"):
                three(4000)
                one(4000)
            with cutaway.operation("generated"):
                list(yielding())
"""


def recorded(folder: Path, text: str, *options: str) -> cutaway.Run:
    program = script(folder, text)
    done = command("run", "-q", *options, "-o", "run.cutaway", program, cwd=folder)
    assert done.returncode == 0, done.stderr
    return cutaway.open(folder / "run.cutaway")


def share_of(
    run: cutaway.Run, thread: int, function: str, among: tuple[str, ...]
) -> float:
    """The share of `function`'s time in that of `among`, as they stand anywhere on the stack."""
    ns = dict.fromkeys(among, 0)
    for part in run.stacks():
        for name in among:
            if part.thread == thread and any(
                place.function == name for place in part.stack
            ):
                ns[name] += part.ns
    return ns[function] / max(1, sum(ns.values()))


def test_samples_divide_a_cell_by_the_work_done_in_each_function(
    tmp_path: Path,
) -> None:
    run = recorded(tmp_path, WORK.replace("wanted", "400") + "\n    work()\n")
    # 3 : 1 by construction; 400 samples know it to a few percent, a busy machine changes both alike.
    assert 0.6 < share_of(run, 0, "three", ("three", "one")) < 0.88
    stacks = {
        tuple(place.function for place in part.stack[-3:])
        for part in run.stacks()
        if part.samples
    }
    assert ("work", "three", "spin") in stacks
    assert ("work", "yielding", "spin") in stacks, (
        "frames of generators lie elsewhere in memory"
    )


def test_the_parts_of_every_cell_add_up_to_it(tmp_path: Path) -> None:
    run = recorded(tmp_path, WORK.replace("wanted", "60") + "\n    work()\n")
    cells = run.breakdown(by=("thread", "operation", "layer"))
    by_operation: dict[str, int] = {}
    for row in run.lines():
        by_operation[row["operation"]] = (
            by_operation.get(row["operation"], 0) + row["ns"]
        )
    for operation in ("uneven", "generated", ""):
        exact = int(cells["ns"][cells["operation"] == operation].sum())
        assert by_operation[operation] == exact


def test_lines_name_your_own_code_and_the_native_call_below_it(tmp_path: Path) -> None:
    run = recorded(
        tmp_path,
        """
        import time
        import cutaway
        from cutaway import _recorder

        def rest():
            time.sleep(0.01)

        with cutaway.operation("resting"):
            while _recorder.stats()["stack_samples"] < 40:
                rest()
        """,
    )
    rows = run.lines()
    row = rows.where(operation="resting", layer="wait")
    assert row["native"][0] == "time.sleep"
    assert row["your_function"][0] == "rest"
    assert row["your_file"][0].endswith("train.py")
    assert row["your_line"][0] == 7
    shown = command("show", "run.cutaway", "--by", "line", cwd=tmp_path).stdout
    assert "train.py:7" in shown
    assert "time.sleep" in shown


def test_threads_other_than_the_main_one_are_sampled(tmp_path: Path) -> None:
    run = recorded(
        tmp_path,
        WORK.replace("wanted", "200")
        + "\n    t = threading.Thread(target=work)\n    t.start()\n    t.join()\n",
    )
    threads = run.threads()
    other = int(threads["thread"][threads["name"] == "Thread-1 (work)"][0])
    assert any(
        part.thread == other and part.stack[-1].function == "spin"
        for part in run.stacks()
        if part.samples
    )


def test_samples_survive_a_kill(tmp_path: Path) -> None:
    program = script(
        tmp_path,
        WORK.replace("wanted", "50")
        + "\n    work()\n    print('now', flush=True)\n    spin(10**12)\n",
    )
    environment = {**os.environ, "CUTAWAY": str(tmp_path / "run.cutaway")}
    with subprocess.Popen(
        [sys.executable, program], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "now\n"
        process.send_signal(signal.SIGKILL)
    run = cutaway.open(tmp_path / "run.cutaway")
    assert (
        run.swept.samples["count"].sum() >= 45
    )  # a few of them fell into pauses or before the first event


def test_a_child_of_fork_samples_itself(tmp_path: Path) -> None:
    run = recorded(
        tmp_path,
        WORK.replace("wanted", "100")
        + """
    import os
    work()
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    os.waitpid(child, 0)
    """,
    )
    rows = run.lines()
    assert {0, 1} <= set(
        rows["process"][(rows["function"] == "spin") & (rows["samples"] > 0)].tolist()
    )


def test_without_sampling_call_sites_alone_are_told(tmp_path: Path) -> None:
    run = recorded(tmp_path, "import time\ntime.sleep(0.05)\n", "--stacks", "0")
    assert not run.swept.samples["count"].sum()
    rows = run.lines()
    assert rows["ns"].sum() == run.breakdown(by="layer")["ns"].sum()
    assert rows["line"][rows["native"] == "time.sleep"].tolist() == [2]


def test_a_run_that_fills_the_cores_is_sampled_less_often(tmp_path: Path) -> None:
    """Each wake-up takes a core from a thread. With one busy thread another core is free for it."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    text = """
        import os, sys, threading, time, zlib
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

        def work(seconds):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                zlib.compress(bytes(4_000_000))

        threading.Thread(target=work, args=(5,)).start()
        work(2)
        time.sleep(0.2)
        from cutaway import _recorder
        before, used = _recorder.stats()["stack_samples"], time.process_time()
        work(2)
        print(_recorder.stats()["stack_samples"] - before, time.process_time() - used)
    """
    program = script(tmp_path, text)
    done = command("run", "-q", "-o", "run.cutaway", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    samples, used = done.stdout.split()
    if float(used) < 3.5:
        pytest.skip("other programs used the cores")
    assert 20 < int(samples) < 2 * 2 * 70  # two threads, two seconds
