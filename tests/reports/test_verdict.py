"""Every rule of the verdict table speaks for the evidence it was made for, and for no thinner one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutaway.analysis.counters import Use
from cutaway.analysis.rollouts import Rollouts
from cutaway.reports.evidence import Blocked, Evidence
from cutaway.reports.rules import RULES
from cutaway.reports.verdict import judge

pytestmark = pytest.mark.core


def even(**changes: object) -> Evidence:
    """A run without a bottleneck, changed in the fields a test is about."""
    base = Evidence(
        seconds=60.0,
        units=100,
        unit_ms=600.0,
        operation={
            "simulation": 0.35,
            "inference": 0.3,
            "backpropagation": 0.3,
            "": 0.05,
        },
        layer={"python": 0.35, "simulator": 0.2, "backend": 0.45},
        cell={
            ("simulation", "python"): 0.15,
            ("simulation", "simulator"): 0.2,
            ("inference", "backend"): 0.2,
            ("inference", "python"): 0.1,
            ("backpropagation", "backend"): 0.25,
            ("backpropagation", "python"): 0.05,
            ("", "python"): 0.05,
        },
        threads=4,
        processes=1,
        cores=8,
        cores_busy=2.0,
        other_cores=0.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def owning(operation: str, share: float = 0.6, layer: str = "backend") -> Evidence:
    rest = 1 - share
    return even(
        operation={operation: share, "other": rest / 2, "more": rest / 2},
        layer={layer: share, "python": rest},
        cell={
            (operation, layer): share,
            ("other", "python"): rest / 2,
            ("more", "python"): rest / 2,
        },
    )


workers = Blocked("env worker", 6, 0.58, "simulation", simulated=2.0)


def counted(compute: float | None, dram: float | None, replayed: bool = False) -> Use:
    """What hardware counters say."""
    return Use(replayed, 100, 8.0, compute, dram, 0.3, "gemm")


CASES = {
    "hang": even(
        hang="train was still inside Tensor.item (train.py:9) for 23 s when it was killed"
    ),
    "far-from-peak": even(device_busy=0.9, use=counted(compute=0.07, dram=0.04)),
    "bandwidth-bound": even(device_busy=0.9, use=counted(compute=0.2, dram=0.8)),
    "compute-bound": even(device_busy=0.9, use=counted(compute=0.7, dram=0.5)),
    "counters-only": even(use=counted(compute=None, dram=0.4, replayed=True)),
    "thin-failed": even(
        operation={"": 1.0}, failure="The program failed with exit code 1."
    ),
    "thin-time": even(seconds=0.05),
    "one-jitted-call": even(
        unit="run",
        operation={"": 1.0},
        one_call=("block_until_ready", 0.6),
        libraries=frozenset({"jax"}),
    ),
    "thin-operations": even(operation={"": 0.8, "simulation": 0.2}),
    "workers-cost": even(
        operation={"simulation": 0.5, "backpropagation": 0.5},
        blocked=Blocked("env worker", 8, 0.45, "simulation", simulated=0.1),
    ),
    "cpu-oversubscription": even(runqueue=0.4, runnable=20.0, threads=64, processes=4),
    "long-tail": even(
        operation={"generation": 0.6, "backpropagation": 0.4},
        rollouts=Rollouts(decoding_ns=60, tail_ns=30, alone_ns=20, peak=8, mean=3.0),
        tail=0.3,
    ),
    "weight-sync": even(
        operation={"generation": 0.4, "sync": 0.3, "backpropagation": 0.3},
        sync_steps={"update": 0.2, "pause": 0.1},
    ),
    "trainer-starved": even(
        sample_wait=0.6, rollouts=Rollouts(queue=0.2, queue_empty=0.8)
    ),
    "stale": even(rollouts=Rollouts(staleness=3.0, staleness_most=5.0)),
    "rollout-starved": even(generators_idle=0.7, sample_wait=0.05),
    "transfer-bound": even(copies=0.4, device_busy=0.5),
    "accelerator-bound": even(gpu_bound=0.6, device_busy=0.8, nvidia_smi=1.0),
    "launch-bound": even(
        layer={"accelerator_api": 0.4, "python": 0.6},
        cell={("inference", "accelerator_api"): 0.4},
        device_busy=0.1,
    ),
    "straggler": even(
        blocked=replace(workers, slowest="env-09", slowest_ratio=1.8, simulated=2.0)
    ),
    "thin-workers": even(
        blocked=workers, queued=0.5, workers_queued=0.5, other_cores=7.0
    ),
    "simulation-bound-workers": even(
        blocked=workers, device_busy=0.17, nvidia_smi=0.74
    ),
    "inference-bound-server": even(blocked=Blocked("inference", 1, 0.5, "inference")),
    "gil": even(layer={"wait": 0.4, "python": 0.6}, gil=0.4),
    "waiting": even(
        layer={"wait": 0.6, "python": 0.4},
        cell={("sync", "wait"): 0.6, ("sync", "python"): 0.4},
    ),
    "thin-shared": even(
        layer={"wait": 0.12, "python": 0.88},
        cell={("simulation", "python"): 0.88},
        queued=0.85,
        other_cores=7.0,
    ),
    "python-glue": even(
        layer={"python": 0.7, "backend": 0.3}, cell={("simulation", "python"): 0.7}
    ),
    "native-bound": even(
        layer={"native": 0.7, "python": 0.3}, cell={("replay", "native"): 0.7}
    ),
    "simulation-bound": owning("simulation", layer="simulator"),
    "inference-bound": owning("inference"),
    "backpropagation-bound": owning("backpropagation"),
    "replay-bound": owning("replay"),
    "sync-bound": owning("sync"),
    "evaluation-bound": owning("evaluation"),
    "checkpoint-bound": owning("checkpoint"),
    "compile-bound": owning("compile"),
    "search-bound": owning("search"),
    "tool-bound": owning("tool"),
    "generation-bound": owning("generation"),
    "reward-bound": owning("reward"),
    "reference-bound": owning("reference"),
    "operation-bound": owning("my own part"),
    "thin-starved": even(queued=0.7, other_cores=7.0),
    "unnamed": even(operation={"": 0.5, "simulation": 0.3, "inference": 0.2}),
    "balanced": even(),
}


def test_every_rule_has_a_case():
    assert [rule.name for rule in RULES] == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_rule_speaks(name: str):
    said = judge(CASES[name])
    assert said.rule == name
    assert said.because.endswith(".") and (
        said.because[0].isupper() or said.because[0].isdigit()
    )
    assert said.advice


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in CASES
        if not n.startswith(("thin", "hang", "one-jitted", "counters-only"))
    ],
)
def test_thin_evidence_silences_every_rule(name: str):
    short = judge(replace(CASES[name], seconds=0.03))
    few = judge(replace(CASES[name], units=2))
    assert (short.label, few.label) == ("NO VERDICT", "NO VERDICT")
    assert not short.certain and short.speedup is None and short.then == ""
    assert "too little" in short.because


def test_many_iterations_make_up_for_a_short_recording():
    assert judge(even(seconds=0.5, units=5)).rule == "balanced"
    assert judge(even(seconds=0.5, units=4)).rule == "thin-time"
    assert judge(even(seconds=0.5, unit="run", units=1)).rule == "thin-time"
    assert judge(even(seconds=2.0, unit="run", units=1)).rule == "balanced"


def test_a_trace_of_a_device_alone_has_no_verdict():
    said = judge(Evidence(seconds=5.0, unit="run", units=1))
    assert (
        said.rule == "thin-operations"
        and said.because == "No time on the CPU was recorded."
    )


def test_the_gain_is_amdahl_on_the_measured_share():
    said = judge(owning("backpropagation", 0.6))
    assert said.speedup == pytest.approx(1 / (1 - 0.3))
    assert said.expected == "estimate: +43 % throughput if that took half the time"


def test_what_ends_a_wait_saves_at_most_that_wait():
    idle = judge(even(blocked=workers, cores=8, cores_busy=6.0))
    full = judge(even(blocked=workers, cores=8, cores_busy=7.9))
    assert idle.expected == "estimate: at most +138 % throughput if that wait ended"
    assert full.speedup is None and full.expected == ""
    uneven = replace(workers, share=0.7, slowest="env-1", slowest_ratio=4.2)
    assert (
        judge(even(blocked=uneven)).speedup == pytest.approx(1 / 0.3)
        and judge(even(blocked=uneven)).at_most
    )
    assert (
        judge(even(blocked=replace(uneven, share=0.95))).speedup is None
    )  # a bound that says nothing


def test_workers_that_simulate_little_cost_more_than_they_do():
    said = judge(replace(CASES["workers-cost"], libraries=frozenset({"gymnasium"})))
    assert (
        said.label == "WORKERS COST MORE THAN THEY DO"
        and "SyncVectorEnv" in said.advice
    )
    # 0.5 of the time is stepping, of which the workers simulate for 0.1.
    assert said.speedup == pytest.approx(1 / (1 - 0.4))
    assert said.expected.endswith(
        "if stepping takes the main process as long as it takes the workers"
    )
    by_sb3 = judge(
        replace(CASES["workers-cost"], libraries=frozenset({"stable_baselines3"}))
    )
    assert "DummyVecEnv" in by_sb3.advice
    busy = replace(CASES["workers-cost"].blocked, simulated=0.4)  # type: ignore[type-var]
    assert judge(even(blocked=busy)).rule == "simulation-bound-workers"


def test_oversubscription_names_threads_processes_and_cores():
    said = judge(CASES["cpu-oversubscription"])
    assert "64 threads in 4 processes share 8 cores" in said.because
    assert "OMP_NUM_THREADS=2" in said.advice
    many = judge(even(runqueue=0.4, runnable=20.0, threads=20, processes=20))
    assert "use 8 processes instead of 20" in many.advice
    assert judge(even(runqueue=0.17, runnable=9.0, threads=12)).rule == "balanced"
    pools = judge(even(runqueue=0.4, runnable=60.0, threads=160, processes=20))
    assert pools.advice == "cap the thread pool of each process: OMP_NUM_THREADS=1"


def test_a_compiled_update_is_not_to_be_compiled_again():
    jax = {"libraries": frozenset({"jax"})}
    assert "compiled already" in judge(replace(owning("backpropagation"), **jax)).advice
    assert (
        "jit the whole"
        in judge(replace(owning("backpropagation", layer="python"), **jax)).advice
    )


def test_what_nvidia_smi_would_have_said_stands_beside_the_truth():
    assert (
        "busy 17 % of the time (nvidia-smi would say 74 %)"
        in judge(CASES["simulation-bound-workers"]).because
    )


def test_the_next_thing_is_another_operation():
    said = judge(CASES["simulation-bound"])
    assert said.then == "120 ms of each iteration is other in Python."


def test_a_crowded_machine_gives_no_estimate():
    crowded = judge(
        even(
            runqueue=0.6,
            runnable=8.0,
            threads=16,
            cores=2,
            cores_busy=1.8,
            other_cores=0.0,
        )
    )
    assert crowded.rule == "cpu-oversubscription" and crowded.speedup is None


@pytest.mark.parametrize(
    ("library", "family", "call_us", "has", "has_not"),
    [
        ("stable_baselines3", "on-policy", 8.0, "batch_size", "gradient_steps"),
        ("stable_baselines3", "on-policy", 900.0, "n_epochs", "batch_size"),
        ("stable_baselines3", "off-policy", 8.0, "gradient_steps", "n_epochs"),
        ("stable_baselines3", "one pass", 8.0, "rollouts", "n_epochs"),
        ("ray", "off-policy", 8.0, "training_intensity", "minibatch_size"),
        ("ray", "on-policy", 8.0, "minibatch_size", "training_intensity"),
        ("torch", "off-policy", 900.0, "fewer updates", "larger"),
        ("torch", "on-policy", 900.0, "passes", "larger"),
    ],
)
def test_advice_about_the_update_fits_the_algorithm(
    library: str, family: str, call_us: float, has: str, has_not: str
):
    known = {
        "libraries": frozenset({library}),
        "family": family,
        "update_call_us": call_us,
    }
    said = judge(replace(owning("backpropagation"), **known)).advice
    assert has in said and has_not not in said


def test_overlap_hides_the_shorter_of_the_two():
    def waiting(share: float) -> Evidence:
        return even(
            layer={"wait": share, "python": 1 - share}, cell={("sync", "wait"): share}
        )

    assert judge(waiting(0.76)).speedup == pytest.approx(1 / 0.76)
    assert (
        judge(waiting(0.76)).expected
        == "estimate: +32 % throughput if the two overlap fully"
    )
    assert judge(waiting(0.5)).speedup == pytest.approx(2.0)


def test_a_shared_machine_is_a_warning_above_the_verdict():
    shared = judge(even(runqueue=0.3, queued=0.3, other_cores=3.0, runnable=20.0))
    assert shared.rule == "balanced" and shared.certain
    assert (
        judge(
            replace(owning("inference"), runqueue=0.3, queued=0.3, other_cores=3.0)
        ).speedup
        is None
    )
    assert shared.warnings[0].startswith(
        "MACHINE SHARED: other programs used 3.0 of 8 cores"
    )
    # It stands above "name the parts" too, and waits are not sure any more.
    assert (
        judge(even(runqueue=0.9, queued=0.9, other_cores=3.0, operation={"": 1.0}))
        .warnings[0]
        .startswith("MACHINE SHARED")
    )
    assert not judge(
        even(blocked=workers, runqueue=0.3, queued=0.3, other_cores=3.0)
    ).certain


def test_a_failure_comes_first():
    said = judge(
        even(
            failure="The program failed with exit code 3.",
            runqueue=0.3,
            queued=0.3,
            other_cores=3.0,
        )
    )
    assert (
        said.warnings[0] == "The program failed with exit code 3."
        and len(said.warnings) == 2
    )


def test_unnamed_time_is_said_and_an_unnamed_half_is_never_balanced():
    half = judge(CASES["unnamed"])
    assert half.label != "BALANCED" and not half.certain
    part = judge(
        even(
            operation={"": 0.3, "simulation": 0.5, "inference": 0.2},
            lines={"": "rl/train.py:9"},
        )
    )
    assert part.rule == "simulation-bound"
    assert part.warnings == (
        "30 % of each iteration has no name; the verdict is about the rest.",
    )
    assert judge(even()).warnings == ()


def test_a_training_in_one_jitted_function_is_no_operation_to_start_with():
    said = judge(
        replace(owning("training program", 0.95), libraries=frozenset({"jax"}))
    )
    assert said.rule == "one-jitted-call" and said.because.startswith(
        "95 % of each iteration is one compiled call:"
    )


def test_what_comes_next_is_not_what_the_verdict_is_about():
    assert "my own part" not in judge(CASES["operation-bound"]).then


def test_without_a_line_the_largest_operation_gets_its_setting():
    even_run = even(libraries=frozenset({"stable_baselines3", "torch"}), lines={})
    assert judge(
        replace(
            even_run, operation={"inference": 0.39, "simulation": 0.31, "sync": 0.3}
        )
    ).advice.startswith("raise n_envs")


def test_a_verdict_about_a_wait_does_not_complain_that_the_wait_has_no_name():
    waits = replace(workers, share=0.9, busy_with="inference")
    said = judge(even(blocked=waits, operation={"": 0.95, "backpropagation": 0.05}, layer={"wait": 0.9, "python": 0.1},
                      cell={("", "wait"): 0.9, ("", "python"): 0.05, ("backpropagation", "python"): 0.05}))  # fmt: skip
    assert said.rule == "inference-bound-server" and said.warnings == ()
    # These act for themselves; nobody asks them.
    assert (
        "in each of the 6 env worker processes" in said.advice
        and "requests" not in said.advice
    )


@pytest.mark.parametrize(
    ("libraries", "setting"),
    [
        (
            {"stable_baselines3", "gymnasium", "torch"},
            "make_vec_env(..., n_envs=7, vec_env_cls=SubprocVecEnv)",
        ),
        ({"ray", "torch", "gymnasium"}, "num_env_runners=7"),
        (
            {"gymnasium"},
            'gymnasium.make_vec(..., num_envs=7, vectorization_mode="async")',
        ),
        (set(), "step the environments in 7 processes"),
    ],
)
def test_advice_names_a_setting_of_the_library_in_use(
    libraries: set[str], setting: str
):
    said = judge(
        replace(
            CASES["simulation-bound"], libraries=frozenset(libraries), step_us=900.0
        )
    )
    assert setting in said.advice
    assert said.speedup == pytest.approx(1 / (1 - 0.6 * (1 - 1 / 7)))
    assert said.given == "if it spreads evenly over 7 processes"


def test_steps_too_short_for_a_pipe_are_not_sent_through_one():
    said = judge(
        replace(
            CASES["simulation-bound"],
            libraries=frozenset({"stable_baselines3"}),
            step_us=20.0,
        )
    )
    assert "SubprocVecEnv" not in said.advice and "a step takes 20 µs" in said.advice


def test_advice_names_a_line_of_the_users():
    lines = {"simulation": "rl/envs.py:42 (reward)", "other": "rl/train.py:7"}
    glue = judge(replace(CASES["python-glue"], lines=lines))
    assert glue.advice.startswith("at your rl/envs.py:42 (reward): ")
    assert judge(replace(CASES["simulation-bound"], lines=lines)).then.endswith(
        "most at your rl/train.py:7."
    )


def test_a_wait_for_an_own_thread_names_it():
    said = judge(replace(CASES["waiting"], waits_for="its thread Prefetcher"))
    assert (
        said.because
        == "60 % of each iteration is blocked, most of it in sync, for its thread Prefetcher."
    )


@pytest.mark.parametrize(
    ("library", "expected"),
    {
        "ray": "minibatch_size",
        "stable_baselines3": "batch_size",
        "tianshou": "batch_size",
        "skrl": "mini_batches",
    }.items(),
)
def test_python_inside_a_framework_gets_its_setting(
    library: str, expected: str
) -> None:
    # Given a program in which one line of the user's runs the whole training, so that no line says anything.
    found = even(
        layer={"python": 0.7, "backend": 0.3},
        cell={("backpropagation", "python"): 0.7},
        libraries=frozenset({library, "torch"}),
    )
    verdict = judge(found)
    assert verdict.rule == "python-glue" and expected in verdict.advice
    # And a line of the user's own goes first.
    own = judge(replace(found, lines={"backpropagation": "train.py:9 (update)"}))
    assert own.advice.startswith("at your train.py:9")


def test_advice_about_one_operation_is_not_estimated_with_the_python_of_others() -> (
    None
):
    # Given simulation (60 %) and an update (40 %) that are all Python, and no line that is the one to vectorise.
    found = Evidence(
        seconds=20,
        units=100,
        operation={"simulation": 0.6, "backpropagation": 0.4},
        layer={"python": 1.0},
        cell={("simulation", "python"): 0.6, ("backpropagation", "python"): 0.4},
        cores=2,
        cores_busy=1.0,
        other_cores=0.0,
    )
    said = judge(found)
    # Two processes for the environments leave 0.4 + 0.6 / 2 of the time.
    assert "2 processes" in said.advice and "2 processes" in said.given
    assert said.speedup == pytest.approx(1 / 0.7)
    # A line of your own may be most of all that Python.
    own = judge(replace(found, lines={"simulation": "train.py:9"}))
    assert own.speedup == pytest.approx(2.0)


def test_a_pace_that_others_may_have_changed_is_no_drift() -> None:
    alike = "From second 9 to second 39 steps/s fell from 2122 to 1310: every operation changed alike."
    grew = "From hour 1 to hour 9 steps/s fell from 1200 to 700: replay grew from 5 % to 38 %."
    busy = {"queued": 0.5, "other_cores": 4.0}

    def warned(**changes: object) -> bool:
        return any("DRIFT" in warning for warning in judge(even(**changes)).warnings)

    assert warned(drift=alike) and warned(drift=grew) and warned(drift=grew, **busy)
    assert not warned(drift=alike, **busy)


def test_a_machine_is_shared_only_if_the_main_thread_waited_for_it():
    # Helper threads, the recorder's among them, may wait all the time: that slows nobody down.
    assert not judge(
        even(runqueue=0.94, queued=0.005, other_cores=3.0, runnable=1.2)
    ).warnings


def test_what_others_use_is_unknown_before_it_is_measured():
    unknown = even(queued=0.3, other_cores=None)
    assert not unknown.shared and unknown.idle_cores == 0


def test_a_handful_of_steps_is_no_evidence():
    assert judge(even(unit="step", units=5, seconds=2.0)).rule == "thin-time"
    assert judge(even(unit="step", units=5000, seconds=2.0)).rule == "balanced"


def test_the_bound_of_a_fight_for_the_gil_is_the_wait_for_it() -> None:
    said = judge(CASES["gil"])
    assert said.expected == "estimate: at most +67 % throughput if that wait ended"
    assert judge(replace(CASES["gil"], gil=0.95)).speedup is None


def test_workers_that_do_little_are_the_cause_of_the_crowd_they_make() -> None:
    # Given eight workers that all wake up at each step, on two cores.
    crowded = replace(
        CASES["workers-cost"], runqueue=0.6, runnable=3.5, cores=2, processes=9
    )
    assert judge(crowded).rule == "workers-cost"
    # And workers whose simulation fills the cores are too many, whatever else they cost.
    assert crowded.blocked is not None
    busy = replace(
        crowded, blocked=replace(crowded.blocked, simulated=2 * crowded.blocked.share)
    )
    assert judge(busy).rule == "cpu-oversubscription"


def test_on_a_busy_machine_the_gil_is_judged_by_the_time_that_others_left() -> None:
    fight = even(
        layer={"wait": 0.2, "python": 0.8},
        gil=0.2,
        cell={("simulation", "python"): 0.8},
    )
    assert judge(fight).rule == "python-glue"
    crowded = judge(replace(fight, queued=0.5, other_cores=7.0))
    assert crowded.rule == "gil" and not crowded.certain and crowded.speedup is None


def test_work_that_may_be_a_wait_on_a_busy_machine_is_not_called_python() -> None:
    hidden = CASES["thin-shared"]
    said = judge(hidden)
    assert "12 % of each iteration waits, and 85 % wants a core" in said.because
    assert not said.certain and said.speedup is None
    quiet = judge(replace(hidden, queued=0.0, other_cores=0.0))
    assert quiet.rule == "python-glue"


def test_the_gil_that_native_calls_wait_for_is_told() -> None:
    calls = judge(replace(CASES["gil"], gil=0.6, gil_in_calls=0.5))
    assert (
        "60 % of each iteration waits for the GIL (50 % at the end of native calls"
        in calls.because
    )
    assert "native calls" not in judge(CASES["gil"]).because


def test_who_holds_the_gil_is_named_where_that_is_known() -> None:
    known = replace(CASES["gil"], gil_thread="sampler", gil_at="rl/replay.py:40")
    said = judge(known)
    assert said.because.endswith("thread sampler holds it, mostly at rl/replay.py:40.")
    assert "what sampler does at rl/replay.py:40 into a process" in said.advice
    assert "another thread" in judge(CASES["gil"]).because


def test_workers_that_wait_too_are_not_what_the_run_is_bound_by() -> None:
    idle = replace(workers, share=0.8, simulated=0.0, busy=0.05)
    said = judge(even(blocked=idle, layer={"wait": 0.8, "python": 0.2}))
    assert said.rule == "waiting"
    assert (
        "waits for 6 env worker processes, each of which mostly waits, too."
        in said.because
    )
    assert (
        judge(even(blocked=replace(idle, busy=0.6))).rule == "simulation-bound-workers"
    )


def test_too_little_is_said_in_readable_units() -> None:
    said = judge(even(seconds=222.0, units=1))
    assert said.because.startswith(
        "Only 3m42s and 1 iteration of steady state recorded"
    )


def test_workers_that_wait_for_cores_of_others_cost_nothing_by_that() -> None:
    idle = CASES["workers-cost"]
    shared = replace(idle, queued=0.3, workers_queued=0.3, other_cores=7.0)
    assert judge(idle).rule == "workers-cost"
    assert judge(shared).rule == "thin-workers"
    assert "for a core that others have" in judge(shared).because
    # What is left of the wait after that is still far more than they simulate.
    little = replace(idle.blocked, share=0.8, simulated=0.02)  # type: ignore[type-var]
    assert judge(replace(shared, blocked=little)).rule == "workers-cost"
    late = replace(shared, blocked=little, queued=0.5, workers_queued=0.5)
    assert judge(late).rule == "thin-workers"  # the last of them waits longer still


def test_a_straggler_is_told_by_cpu_time_on_a_busy_machine_too() -> None:
    shared = replace(
        CASES["straggler"], queued=0.5, workers_queued=0.5, other_cores=7.0
    )
    assert judge(shared).rule == "straggler" and not judge(shared).certain


def test_a_wait_in_native_code_is_told_by_your_own_line() -> None:
    asleep = replace(
        CASES["waiting"],
        cell={("", "wait"): 0.6},
        waits_for="native code at _channel.py:1152",
    )
    assert "native code at _channel.py:1152" in judge(asleep).because
    said = judge(replace(asleep, waits_at="train.py:22 (main)")).because
    assert said == (
        "60 % of each iteration is blocked, most of it in native code called at your "
        "train.py:22 (main)."
    )


def test_python_in_a_replay_of_a_frameworks_loop_has_the_setting_for_fewer_updates() -> (
    None
):
    replay = even(
        layer={"python": 0.8, "backend": 0.2},
        cell={("replay", "python"): 0.5, ("backpropagation", "python"): 0.3},
        libraries=frozenset({"ray"}),
        family="off-policy",
    )
    assert "training_intensity" in judge(replay).advice
    own = replace(replay, lines={"replay": "memory.py:9 (sample)"})
    assert "memory.py:9" in judge(own).advice
    assert "training_intensity" not in judge(replace(replay, family="on-policy")).advice


def test_who_computes_most_is_named_where_a_queue_in_native_code_says_nothing() -> None:
    busiest = "inference_proc0-0 (61 % of a core, mostly inference)"
    queue = replace(
        CASES["waiting"], busiest=busiest, waits_for="native code at q.py:9"
    )
    assert judge(queue).advice.endswith(f"{busiest} computes most")
    known = replace(queue, waits_for="replay server")
    assert busiest not in judge(known).advice
