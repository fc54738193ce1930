"""Operations, phases, iterations and steps: what the program says is what the stream says."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from streams import (
    array_of,
    events,
    only_process,
    outline,
    recording,
    run,
    thread_named,
)

from cutaway import _recorder as recorder
from cutaway.record import tasks
from cutaway.record.frameworks import hooks
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

operation = recorder.operation


def outline_of(folder: Path) -> str:
    return outline(only_process(folder)).removeprefix("begin ").removesuffix(" end")


def test_nested_blocks_in_order(tmp_path: Path) -> None:
    with recording(tmp_path):
        with operation("a"), operation("b"):
            with operation("b"):
                pass
    assert outline(only_process(tmp_path)) == "begin a( b( b( b) b) a) end"


def test_times_never_run_backwards_and_are_on_one_clock(tmp_path: Path) -> None:
    with recording(tmp_path):
        for _ in range(1000):
            with operation("a"):
                pass
    times = array_of(only_process(tmp_path), 0)["time"]
    assert (times[1:] >= times[:-1]).all()


def test_an_operation_is_one_object_for_each_name_and_survives_pickling() -> None:
    assert operation("same") is operation("sa" + "me")
    assert pickle.loads(pickle.dumps(operation("same"))) is operation("same")
    assert operation("same").name == "same"


def test_exceptions_pass_through_and_close_the_block(tmp_path: Path) -> None:
    with recording(tmp_path):
        with pytest.raises(KeyError, match="mine"), operation("a"), operation("b"):
            raise KeyError("mine")
    assert outline_of(tmp_path) == "a( b( b) a)"


def test_blocks_that_overlap_close_by_name(tmp_path: Path) -> None:
    with recording(tmp_path):
        a, b = operation("a"), operation("b")
        a.__enter__()
        b.__enter__()
        a.__exit__(None, None, None)
        b.__exit__(None, None, None)
        b.__exit__(None, None, None)  # was not open: leaves no record
    assert outline_of(tmp_path) == "a( b( a) b)"


def test_left_open_at_the_end(tmp_path: Path) -> None:
    with recording(tmp_path):
        operation("a").__enter__()
    assert outline(only_process(tmp_path)) == "begin a( end"


def test_a_block_around_the_start_is_not_known_and_does_no_harm(tmp_path: Path) -> None:
    with operation("before"):
        with recording(tmp_path), operation("a"):
            pass
    assert outline_of(tmp_path) == "a( a)"


def test_names_of_any_kind(tmp_path: Path) -> None:
    names = ["Größe/模型 🎲", 'quote " back\\slash\n', "", "lone \udc80", "x" * 10000]
    with recording(tmp_path):
        for name in names:
            with operation(name):
                pass
        with operation(3):  # type: ignore[arg-type]
            pass
    process = only_process(tmp_path)
    known = [process.log.name(e.id) for e in events(process) if e.kind is Kind.OP_ENTER]
    assert known == [*names[:3], "lone \\udc80", names[4], "3"]


def test_a_hundred_thousand_names(tmp_path: Path) -> None:
    program = """
    recorder.start(folder)
    for i in range(100_000):
        with recorder.operation(f"name {i}"):
            pass
    recorder.stop()
    """
    # In a process of its own: names are never forgotten, and every later recording here would hold them.
    assert run(program, tmp_path).returncode == 0
    process = only_process(tmp_path)
    entered = array_of(process, 0)["tag"]
    entered = entered[(entered & 0xFF) == Kind.OP_ENTER] >> 8
    assert [process.log.names[id] for id in entered.tolist()] == [
        f"name {i}" for i in range(100_000)
    ]


def test_each_thread_has_its_own_stack_and_name(tmp_path: Path) -> None:
    def work() -> None:
        barrier.wait()
        with operation("theirs"):
            barrier.wait()

    barrier = threading.Barrier(2)
    with recording(tmp_path):
        worker = threading.Thread(target=work, name="worker")
        with operation("mine"):
            worker.start()
            barrier.wait()
            barrier.wait()
            worker.join()
    process = only_process(tmp_path)
    assert (
        outline(process, thread_named(process, "worker")) == "begin theirs( theirs) end"
    )
    assert (
        outline(process, thread_named(process, "MainThread")) == "begin mine( mine) end"
    )


def test_phases_as_statement_and_as_block(tmp_path: Path) -> None:
    with recording(tmp_path):
        recorder.phase("warm up")
        with recorder.phase("selfplay"):
            pass
        recorder.phase(None)
    assert outline_of(tmp_path) == "phase:warm up phase:selfplay phase:warm up phase:"


def test_iterations_carry_cpu_time_and_steps_their_width(tmp_path: Path) -> None:
    with recording(tmp_path):
        recorder.iteration()
        recorder.step(16)
        recorder.iteration()
    process = only_process(tmp_path)
    assert outline_of(tmp_path) == "cpu_time iteration:1 step:16 cpu_time iteration:2"
    first, second = (
        e.id << 32 | e.value for e in events(process) if e.kind is Kind.CPU_TIME
    )
    assert 0 < first < second


def test_pause_and_resume_write_only_what_changed(tmp_path: Path) -> None:
    with recording(tmp_path):
        with operation("stays"):
            with operation("closes"):
                recorder.pause()
            with operation("unseen"):
                recorder.step(5)
            with operation("opens"):
                recorder.resume()
    assert (
        outline_of(tmp_path)
        == "stays( closes( pause:3 resume:5 closes) opens( opens) stays)"
    )


def test_a_second_recording_in_the_same_process(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        with recording(tmp_path / folder), operation("kept"):
            pass
    assert (
        outline_of(tmp_path / "first")
        == outline_of(tmp_path / "second")
        == "kept( kept)"
    )


# Decorators


@operation("decorated")
def twice(x: int, *, times: int = 2) -> int:
    """Doubles."""
    return x * times


def test_decorated_function_behaves_as_before(tmp_path: Path) -> None:
    with recording(tmp_path):
        assert twice(4) == 8 and twice(4, times=3) == 12
    assert outline_of(tmp_path) == "decorated( decorated) decorated( decorated)"
    assert (twice.__name__, twice.__doc__, twice.__module__) == (
        "twice",
        "Doubles.",
        __name__,
    )
    assert str(inspect.signature(twice)) == "(x: 'int', *, times: 'int' = 2) -> 'int'"
    assert isinstance(twice, FunctionType) and inspect.isfunction(twice)
    assert copy.deepcopy(twice) is twice and pickle.loads(pickle.dumps(twice)) is twice
    assert twice.__wrapped__(1) == 2  # type: ignore[attr-defined]


class Model:
    @operation("method")
    def predict(self, x: int) -> tuple[Model, int]:
        return self, x

    @classmethod
    @operation("class method")
    def make(cls) -> type:
        return cls


def test_decorated_methods_bind(tmp_path: Path) -> None:
    model = Model()
    with recording(tmp_path):
        assert model.predict(3) == (model, 3) == Model.predict(model, 3)
        assert Model.make() is Model
    assert outline_of(tmp_path).split() == [
        *["method(", "method)"] * 2,
        *"class method( class method)".split(),
    ]


def test_decorated_generator_is_open_only_while_it_runs(tmp_path: Path) -> None:
    @operation("generator")
    def numbers() -> Iterator[int]:
        with pytest.raises(ValueError, match="thrown in"):
            yield 1
        got = yield 2
        yield got

    with recording(tmp_path):
        it: Any = numbers()
        with operation("outside"):
            assert next(it) == 1
        assert it.throw(ValueError("thrown in")) == 2
        assert it.send(7) == 7
        assert next(it, None) is None
    inside = "generator( generator)"
    assert (
        outline_of(tmp_path) == f"outside( {inside} outside) {inside} {inside} {inside}"
    )
    assert inspect.isgeneratorfunction(numbers)


def test_decorated_coroutines_interleave(tmp_path: Path) -> None:
    @operation("task")
    async def work(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @operation("stream")
    async def stream() -> AsyncIterator[int]:
        for i in range(2):
            await asyncio.sleep(0)
            yield i

    async def main() -> tuple[list[int], list[int]]:
        return await asyncio.gather(work(1), work(2)), [i async for i in stream()]

    with recording(tmp_path):
        assert asyncio.run(main()) == ([1, 2], [0, 1])
    assert outline_of(tmp_path) == " ".join(
        ["task( task)"] * 4 + ["stream( stream)"] * 5
    )
    assert inspect.iscoroutinefunction(work) and inspect.isasyncgenfunction(stream)


def test_blocks_in_tasks_do_not_mix(tmp_path: Path) -> None:
    async def work(name: str) -> None:
        with operation(name):
            await asyncio.sleep(0)
            with operation("inner"):
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(work("a"), work("b"))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(forever(), 0.001)

    async def forever() -> None:
        with operation("cancelled"):
            await asyncio.sleep(100)

    tasks.follow_tasks(asyncio.events)
    try:
        with recording(tmp_path):
            asyncio.run(main())
    finally:
        hooks.restore()
    first = "a( a) b( b)"
    second = "a( inner( inner) a) b( inner( inner) b)"
    assert outline_of(tmp_path).startswith(f"{first} {second} {second}")
    assert outline_of(tmp_path).endswith("cancelled( cancelled) cancelled( cancelled)")
    assert not isinstance(asyncio.events.Handle._run, recorder.TaskRunner)  # type: ignore[attr-defined]
