"""Ray: who waits for whom, under which names; and RLlib's own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from recorded import one, record, script

import cutaway

PATIENT = {
    "RAY_gcs_server_port_wait_time_s": "300"
}  # on a busy machine the usual 30 may not do
HERE = str(Path(__file__).parent)
START = f"import sys; sys.path.append({HERE!r}); from start_ray import start_ray; start_ray()"


def waited(run: cutaway.Run, who: str, function: str) -> dict[str, int]:
    """Milliseconds a process waited in a function, by the name of whom it waited for."""
    names = dict(enumerate(run.processes()["name"].tolist()))
    found: dict[str, int] = {}
    for row in run.waits():
        if names[row["process"]] == who and row["function"] == function:
            other = ",".join(
                names[int(index)] for index in row["among"].split(",") if index
            )
            found[other] = found.get(other, 0) + row["ns"] // 1_000_000
    return found


def layers(run: cutaway.Run, who: str) -> dict[str, int]:
    """Milliseconds the main thread of a process spent in each layer."""
    process = run.processes()["name"].tolist().index(who)
    rows = run.breakdown(by=("process", "thread", "layer")).where(process=process)
    main = min(rows["thread"].tolist())
    return {
        row["layer"]: row["ns"] // 1_000_000 for row in rows if row["thread"] == main
    }


def test_the_driver_waits_for_actors_and_tasks_by_name_and_idle_workers_wait_for_the_driver(
    tmp_path: Path,
) -> None:
    script(
        tmp_path,
        f"""
        import os, time, ray
        {START}
        @ray.remote
        class Sampler:
            def work(self, seconds):
                end = time.monotonic() + seconds
                while time.monotonic() < end: pass
                return os.getpid()
        @ray.remote
        def square(x):
            time.sleep(0.3)
            return x * x
        samplers = [Sampler.remote() for _ in range(2)]
        ray.get(samplers[0].work.remote(0))
        ray.get(samplers[1].work.remote(0))
        open("pid", "w").write(str(ray.get(samplers[1].work.remote(0.5))))
        time.sleep(0.6)
        ray.wait([samplers[0].work.remote(0.1), samplers[1].work.remote(0.4)], num_returns=2)
        assert ray.get(square.remote(3)) == 9
        ray.shutdown()
        """,
    )
    seen = record(tmp_path, "train.py", env=PATIENT)
    run = cutaway.open(tmp_path / "run.cutaway")
    assert {"train", "Sampler#1", "Sampler#2", "square"} <= {p.name for p in seen}
    fetched = waited(run, "train", "ray.get")
    alone = one(seen, pid=int((tmp_path / "pid").read_text())).name
    assert alone in ("Sampler#1", "Sampler#2")
    assert fetched[alone] >= 450 and fetched["square"] >= 250
    assert waited(run, "train", "ray.wait")["Sampler#1,Sampler#2"] >= 350
    idle = waited(run, alone, "ray: wait for a task")
    assert idle.keys() == {"train"} and idle["train"] >= 500
    assert layers(run, alone)["python"] >= 850  # the loop it turned in is work


def test_a_second_recording_names_tasks_as_the_first_does(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        f"""
        import cutaway, ray
        {START}
        @ray.remote
        def square(x):
            return x * x
        for name in ("first", "second"):
            with cutaway.record(f"{{name}}.cutaway"):
                assert ray.get(square.remote(3)) == 9
        ray.shutdown()
        """,
    )
    subprocess.run(
        [sys.executable, path],
        cwd=tmp_path,
        env={**os.environ, **PATIENT},
        check=True,
        timeout=500,
    )
    for name in ("first", "second"):
        (process, *_) = cutaway.open(tmp_path / f"{name}.cutaway").trace.processes
        assert "task:square" in {
            call.on for call in process.log.calls.values() if call.fn == "ray.get"
        }


def test_a_worker_with_a_setup_hook_is_one_process(tmp_path: Path) -> None:
    script(
        tmp_path,
        f"""
        import ray
        def prepare(): pass
        {START.replace("start_ray()", "start_ray(runtime_env=dict(worker_process_setup_hook=prepare))")}
        @ray.remote
        class Sampler:
            def work(self): return 1
        assert ray.get(Sampler.remote().work.remote()) == 1
        ray.shutdown()
        """,
    )
    seen = record(tmp_path, "train.py", env=PATIENT)
    pids = [process.pid for process in seen]
    assert len(pids) == len(set(pids))
    assert {"train", "Sampler"} <= {process.name for process in seen}


def test_rllib(tmp_path: Path) -> None:
    script(
        tmp_path,
        f"""
        import os, ray
        from ray.rllib.algorithms.ppo import PPOConfig
        {START}
        config = (
            PPOConfig()
            .environment("CartPole-v1")
            .env_runners(num_env_runners=2, num_envs_per_env_runner=2)
            .rl_module(model_config=dict(fcnet_hiddens=[8]))
            .training(train_batch_size_per_learner=200, minibatch_size=100, num_epochs=2)
            .evaluation(evaluation_interval=2, evaluation_num_env_runners=1, evaluation_duration=1)
        )
        algorithm = config.build_algo()
        for _ in range(3): result = algorithm.train()
        algorithm.save(os.path.abspath("checkpoint"))
        open("sampled", "w").write(str(int(result["num_env_steps_sampled_lifetime"])))
        algorithm.stop()
        ray.shutdown()
        """,
    )
    seen = record(tmp_path, "train.py", env=PATIENT)
    driver = one(seen, role="learner")
    assert (driver.name, driver.iterations) == ("train", 3)
    assert driver.operations["backpropagation"] == 3
    assert driver.operations["evaluation"] == driver.operations["checkpoint"] == 1
    assert driver.operations["sync"] >= 3
    runners = [one(seen, name=f"SingleAgentEnvRunner#{number}") for number in (1, 2)]
    assert (
        sum(runner.steps for runner in runners)
        == int((tmp_path / "sampled").read_text())
        >= 600
    )
    for runner in runners:
        assert (runner.role, runner.operations["simulation"]) == ("actor", 3)
        assert runner.inside["inference", "simulation"] >= 3 * 50
        assert runner.operations["sync"] >= 3
    evaluator = one(seen, name="evaluation SingleAgentEnvRunner#1")
    assert (evaluator.role, evaluator.steps) == ("evaluation", 0)
    assert set(evaluator.operations) == {"sync", "evaluation"}
    run = cutaway.open(tmp_path / "run.cutaway")
    assert "SingleAgentEnvRunner#1,SingleAgentEnvRunner#2" in {
        ",".join(sorted(names.split(","))) for names in waited(run, "train", "ray.wait")
    }


def test_rllib_with_a_learner_of_its_own_and_replay(tmp_path: Path) -> None:
    script(
        tmp_path,
        f"""
        import ray
        from ray.rllib.algorithms.dqn import DQNConfig
        {START}
        config = (
            DQNConfig()
            .environment("CartPole-v1")
            .env_runners(num_env_runners=0, rollout_fragment_length=4)
            .learners(num_learners=1)
            .training(train_batch_size_per_learner=8, num_steps_sampled_before_learning_starts=8)
            .reporting(min_sample_timesteps_per_iteration=16, min_time_s_per_iteration=0)
        )
        algorithm = config.build_algo()
        for _ in range(2): result = algorithm.train()
        open("sampled", "w").write(str(int(result["num_env_steps_sampled_lifetime"])))
        algorithm.stop()
        ray.shutdown()
        """,
    )
    seen = record(tmp_path, "train.py", env=PATIENT)
    driver = one(seen, name="train")
    assert (driver.role, driver.iterations) == ("driver", 2)
    assert driver.steps == int((tmp_path / "sampled").read_text()) >= 32
    assert driver.operations["replay"] >= 2
    assert driver.operations["inference"] > 0
    learner = one(seen, name="DQNTorchLearner")
    assert learner.role == "learner"
    assert (
        learner.operations["backpropagation"]
        == driver.operations["backpropagation"]
        > 0
    )
