"""Stable-Baselines3 and sb3-contrib: counts against the known numbers of steps and updates."""

from __future__ import annotations

from pathlib import Path

from recorded import notes, one, record, script


def test_an_on_policy_loop(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        from stable_baselines3 import PPO
        from stable_baselines3.common.env_util import make_vec_env
        env = make_vec_env("CartPole-v1", n_envs=2, seed=1)
        PPO("MlpPolicy", env, n_steps=32, batch_size=16, n_epochs=3, seed=1, device="cpu").learn(128)
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.steps == 128
    assert seen.iterations == 2
    assert seen.operations["simulation"] == 64 + 1  # and one reset
    assert (
        seen.operations["inference"] == 64 + 2
    )  # and the value of each rollout's last observation
    assert seen.operations["backpropagation"] == 2
    assert seen.inside["replay", "backpropagation"] == 2 * 3 * 4
    assert seen.inside["replay", ""] == 64
    assert seen.role == "learner"
    assert notes(tmp_path / "run.cutaway") == []


def test_an_off_policy_loop(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        from stable_baselines3 import DQN
        model = DQN("MlpPolicy", "CartPole-v1", learning_starts=32, train_freq=4, seed=1, device="cpu",
                    exploration_initial_eps=0.0, exploration_final_eps=0.0)
        model.learn(100)
        model.save("model.zip")
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.steps == 100
    assert seen.iterations == 25
    assert seen.operations["backpropagation"] == 17
    assert seen.inside["replay", ""] == 100
    assert seen.inside["replay", "backpropagation"] == 17
    assert seen.operations["inference"] == 100 - 32
    assert seen.operations["checkpoint"] == 1


def test_evaluation_stays_whole_and_its_steps_are_not_training(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import gymnasium as gym
        from stable_baselines3 import A2C
        from stable_baselines3.common.callbacks import EvalCallback
        from stable_baselines3.common.evaluation import evaluate_policy
        from stable_baselines3.common.monitor import Monitor
        model = A2C("MlpPolicy", "CartPole-v1", n_steps=5, seed=1, device="cpu")
        model.learn(20, callback=EvalCallback(Monitor(gym.make("CartPole-v1")), eval_freq=10, verbose=0))
        evaluate_policy(model, Monitor(gym.make("CartPole-v1")), n_eval_episodes=2)
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.operations["evaluation"] == 3
    assert seen.steps == 20
    assert not any(around == "evaluation" for _, around in seen.inside)


def test_workers_of_a_subprocess_vector_environment(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        from stable_baselines3 import PPO
        from stable_baselines3.common.env_util import make_vec_env
        from stable_baselines3.common.vec_env import SubprocVecEnv
        if __name__ == "__main__":
            env = make_vec_env("CartPole-v1", n_envs=2, seed=1, vec_env_cls=SubprocVecEnv)
            PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=1, device="cpu").learn(64)
            env.close()
        """,
    )
    seen = record(tmp_path, "train.py")
    learner = one(seen, role="learner")
    assert (learner.steps, learner.iterations) == (64, 2)
    workers = [p for p in seen if p is not learner]
    assert [(p.role, p.steps) for p in workers] == [("env worker", 32)] * 2


def test_contributed_algorithms(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        from sb3_contrib import ARS, QRDQN, RecurrentPPO, TRPO
        common = dict(seed=1, device="cpu")
        TRPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, **common).learn(32)
        RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=16, batch_size=16, n_epochs=1, **common).learn(16)
        QRDQN("MlpPolicy", "CartPole-v1", learning_starts=8, train_freq=4, **common).learn(20)
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.steps == 32 + 16 + 20
    assert seen.iterations == 1 + 1 + 5
    assert seen.operations["backpropagation"] == 1 + 1 + 3


def test_random_search_simulates_where_it_evaluates(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        from sb3_contrib import ARS
        model = ARS("LinearPolicy", "CartPole-v1", n_delta=2, seed=1, device="cpu")
        model.learn(60)
        print(model.num_timesteps)
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.operations["evaluation"] == 0
    assert seen.operations["simulation"] > seen.steps >= 60
    assert seen.iterations >= 1
