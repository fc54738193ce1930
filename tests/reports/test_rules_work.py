"""Verdicts about work of the run's own: which operation, which setting, which line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutaway.reports.evidence import Evidence
from cutaway.reports.verdict import judge

from .made_evidence import CASES, even, owning

pytestmark = pytest.mark.core


def test_a_compiled_update_is_not_to_be_compiled_again():
    jax = {"libraries": frozenset({"jax"})}
    assert "compiled already" in judge(replace(owning("backpropagation"), **jax)).advice
    assert (
        "jit the whole"
        in judge(replace(owning("backpropagation", layer="python"), **jax)).advice
    )


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


def test_a_training_in_one_jitted_function_is_no_operation_to_start_with():
    said = judge(
        replace(owning("training program", 0.95), libraries=frozenset({"jax"}))
    )
    assert said.rule == "one-jitted-call" and said.because.startswith(
        "95 % of each iteration is one compiled call:"
    )


def test_without_a_line_the_largest_operation_gets_its_setting():
    even_run = even(libraries=frozenset({"stable_baselines3", "torch"}), lines={})
    assert judge(
        replace(
            even_run, operation={"inference": 0.39, "simulation": 0.31, "sync": 0.3}
        )
    ).advice.startswith("raise n_envs")


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


def test_a_jitted_rollout_is_no_whole_training() -> None:
    jax = frozenset({"jax"})
    said = judge(replace(owning("rollout program", 0.7), libraries=jax))
    assert said.rule == "one-jitted-call" and said.because.startswith(
        "70 % of each iteration is a compiled rollout, policy and environment in one loop:"
    )
    assert "one update" not in said.advice and "block_until_ready" not in said.advice
    both = {"rollout program": 0.1, "training program": 0.6, "backpropagation": 0.3}
    said = judge(even(operation=both, libraries=jax))
    assert "(60 % a wait for it and the update together)" in said.because
    assert said.advice.startswith("record once with jax.block_until_ready")


def test_a_run_that_mostly_compiles_was_short() -> None:
    said = judge(replace(owning("compile", 0.9), libraries=frozenset({"jax"})))
    assert said.rule == "compile-bound"
    assert said.advice.startswith("record longer, since each function compiles once")
    assert "jax_compilation_cache_dir" in said.advice


@pytest.mark.parametrize(
    ("versions", "workers", "vectorised"),
    [
        (
            {"gymnasium": "1.4.0"},
            "gymnasium.make_vec(",
            'vectorization_mode="vector_entry_point") or EnvPool',
        ),
        ({"gymnasium": "0.29.1"}, "gymnasium.make_vec(", " simulator (EnvPool)"),
        (
            {"gymnasium": "0.28.1"},
            "gymnasium.vector.AsyncVectorEnv",
            " simulator (EnvPool)",
        ),
        ({"gym": "0.21.0"}, "gym.vector.AsyncVectorEnv", " simulator (EnvPool)"),
        ({}, "step the environments in 7 processes", "make a step cheaper: one call"),
    ],
)
def test_advice_about_environments_fits_the_version_of_their_library(
    versions: dict[str, str], workers: str, vectorised: str
):
    case = replace(
        CASES["simulation-bound"], libraries=frozenset(versions), versions=versions
    )
    assert workers in judge(replace(case, step_us=900.0)).advice
    assert vectorised in judge(replace(case, step_us=20.0)).advice


def test_only_gymnasium_has_num_envs():
    for libraries, named in (({"gymnasium", "torch"}, True), ({"torch"}, False)):
        said = judge(replace(CASES["inference-bound"], libraries=frozenset(libraries)))
        assert ("num_envs=" in said.advice) == named


def test_offline_training_is_not_told_to_update_less_often_for_each_step():
    case = replace(
        CASES["backpropagation-bound"],
        family="off-policy",
        libraries=frozenset({"torch"}),
        operation={"backpropagation": 0.9, "replay": 0.1},
    )
    assert "for each step" not in judge(case).advice
    assert "smaller network or batch" in judge(case).advice
    several = judge(replace(case, processes=3))  # one of them may simulate
    assert "fewer updates" in several.advice


@pytest.mark.parametrize("layer", ["python", "native"])
@pytest.mark.parametrize("operation", ["evaluation", "checkpoint", "sync", "reward"])
def test_what_can_be_done_less_often_comes_before_how_it_is_done(
    operation: str, layer: str
) -> None:
    assert judge(owning(operation, 0.7, layer)).rule == f"{operation}-bound"
    # A simulator in NumPy is to become faster: it cannot be stepped less often.
    assert judge(owning("simulation", 0.7, "native")).rule == "native-bound"
