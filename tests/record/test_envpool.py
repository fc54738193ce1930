"""EnvPool: send and recv are simulation; every reward received is a step, however wide the pool is."""

from __future__ import annotations

from pathlib import Path

from recorded import record, script


def test_asynchronous_pools_count_what_they_receive(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import envpool, numpy as np
        pool = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=4, batch_size=2, num_threads=1, seed=1)
        pool.async_reset()
        for _ in range(10):
            obs, reward, terminated, truncated, info = pool.recv()
            pool.send(np.zeros(2, np.int32), info["env_id"])
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.operations == {"simulation": 1 + 10 + 10}
    assert seen.steps == 20


def test_a_step_of_a_pool_is_counted_once(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import envpool, numpy as np
        for kind in ("gymnasium", "dm"):
            pool = envpool.make("CartPole-v1", env_type=kind, num_envs=3, num_threads=1, seed=1)
            pool.reset()
            for _ in range(5): pool.step(np.zeros(3, np.int32))
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.operations == {"simulation": 2 * (1 + 5)}
    assert seen.steps == 2 * 5 * 3
