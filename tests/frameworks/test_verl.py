"""verl trains on GPUs only; its timers, through which Cutaway sees it, run anywhere."""

from __future__ import annotations

from pathlib import Path

from recorded import record, script


def test_timers_are_operations_and_a_step_is_an_iteration(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        from verl.utils.profiler import marked_timer, simple_timer
        timing = {}
        for _ in range(2):
            with marked_timer("step", timing):
                with marked_timer("gen", timing, color="red"): pass
                with marked_timer("ref", timing): pass
                with marked_timer("update_actor", timing): pass
                with simple_timer("compute_score", timing): pass
                with marked_timer("something_else", timing): pass
        assert len(timing) == 6
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 2
    assert seen.operations == dict.fromkeys(
        ("generation", "reference", "backpropagation", "reward"), 2
    )
