"""Verdicts about small programs that were really recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from cutaway.reports.digest import Digest, Verdict
from cutaway.reports.digests import digest_at
from cutaway.reports.evidence import evidence


def recorded(folder: Path, program: str, code: int = 0) -> tuple[Digest, Verdict]:
    """Records a program; the digest and the verdict."""
    (folder / "train.py").write_text(textwrap.dedent(program))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("CUTAWAY", None)
    command = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        "-q",
        "-o",
        "r.cutaway",
        "train.py",
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stderr
    digest = digest_at(folder / "r.cutaway")
    return digest, digest.verdict


@pytest.mark.core
def test_a_matrix_product_is_not_python(tmp_path: Path):
    _, said = recorded(
        tmp_path,
        """
        import time
        import numpy as np
        import cutaway

        a, end = np.random.rand(500, 500), time.monotonic() + 3  # enough for a verdict, however fast the machine is
        while time.monotonic() < end:
            cutaway.iteration()
            with cutaway.operation("simulation"):
                a @ a
        """,
    )
    assert said.rule == "native-bound" and "train.py:10" in said.advice


@pytest.mark.core
def test_a_program_that_failed_says_so_first(tmp_path: Path):
    _, said = recorded(
        tmp_path,
        """
        import cutaway

        for _ in range(10):
            cutaway.iteration()
            with cutaway.operation("simulation"):
                sum(range(200_000))
        raise SystemExit(3)
        """,
        code=3,
    )
    assert said.warnings[0].startswith("The program failed with exit code 3.")


@pytest.mark.core
def test_a_learner_that_looks_whether_samples_are_there_waits_for_samples(
    tmp_path: Path,
):
    _, said = recorded(
        tmp_path,
        """
        import multiprocessing, time
        import cutaway

        def act(made, over):
            while not over.value:
                with cutaway.operation("simulation"):
                    time.sleep(0.02)
                    sum(range(20_000))  # waiting alone is no simulation
                made.value += 1

        if __name__ == "__main__":
            fork = multiprocessing.get_context("fork")
            made, over = fork.RawValue("l", 0), fork.RawValue("b", 0)
            actor = fork.Process(target=act, args=(made, over), name="actor")
            actor.start()
            for number in range(100):
                cutaway.iteration()
                while made.value <= number:
                    time.sleep(0.002)
                with cutaway.operation("backpropagation"):
                    sum(range(1000))
            over.value = 1
            actor.join()
        """,
    )
    assert said.rule == "learner-starved"
    assert "the learner waits, while 1 other process simulates" in said.because


@pytest.mark.core
def test_ctrl_c_is_no_failure(tmp_path: Path):
    _, said = recorded(
        tmp_path,
        """
        import signal

        import cutaway

        for _ in range(10):
            cutaway.iteration()
            with cutaway.operation("simulation"):
                sum(range(200_000))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        signal.raise_signal(signal.SIGINT)
        """,
        code=-signal.SIGINT,
    )
    assert (
        said.warnings[0]
        == "The program was interrupted (Ctrl-C). The figures cover the time until then."
    )


@pytest.mark.core
def test_an_idle_helper_leads_no_table_and_waits_fit_into_a_life(tmp_path: Path):
    digest, _ = recorded(
        tmp_path,
        """
        import queue, threading, time
        import cutaway

        work = queue.Queue()
        for _ in range(4):  # like the writers of TensorBoard: they wait for work all the time
            threading.Thread(target=work.get, daemon=True).start()
        for _ in range(10):
            cutaway.iteration()
            with cutaway.operation("sync"):
                time.sleep(0.08)
            with cutaway.operation("replay"):
                sum(range(1_000_000))
        """,
    )
    assert sum(w.ns for w in digest.waits) <= digest.main.life_ns
    assert digest.waits[0].operation == "sync"
    assert not any(
        "queue.py" in h.file for h in digest.code.callsites if h.layer == "wait"
    )
    assert 0 < digest.main.wait_share <= 1


@pytest.mark.core
def test_a_wait_for_a_stranger_names_nobody(tmp_path: Path):
    # Given: a learner that reads from a server that is not recorded, and an evaluator it never waits for.
    _, said = recorded(
        tmp_path,
        """
        import multiprocessing, socket, subprocess, sys
        import cutaway

        SERVER = [
            "import socket, time",
            "s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); c, _ = s.accept()",
            "while c.recv(1): time.sleep(.05); c.send(b'x')",
        ]

        def evaluator():
            with cutaway.operation("simulation"):
                while True:
                    sum(range(1000))

        if __name__ == "__main__":
            code = chr(10).join(SERVER)
            server = subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, text=True)
            c = socket.create_connection(("127.0.0.1", int(server.stdout.readline())))
            other = multiprocessing.get_context("fork").Process(target=evaluator, name="evaluator", daemon=True)
            other.start()
            for _ in range(25):
                cutaway.iteration()
                with cutaway.operation("replay"):
                    c.send(b"x")
                    c.recv(1)
                with cutaway.operation("backpropagation"):
                    sum(range(10_000))
            c.close()
        """,
    )
    assert (
        said.rule == "waiting"
        and "evaluator" not in said.because
        and "process" not in said.because
    )
    # Its daemon's end is no failure.
    assert said.warnings == () or said.warnings[0].startswith("MACHINE SHARED")


def test_the_normal_end_of_subprocess_environments_is_no_alarm(tmp_path: Path):
    digest, said = recorded(
        tmp_path,
        """
        import time, gymnasium
        from stable_baselines3.common.env_util import make_vec_env
        from stable_baselines3.common.vec_env import SubprocVecEnv

        if __name__ == "__main__":
            env = make_vec_env("CartPole-v1", n_envs=2, vec_env_cls=SubprocVecEnv)
            env.reset()
            for _ in range(50):
                env.step([0, 1])
            time.sleep(2.5)  # the workers wait for work
        """,
    )
    workers = [p for p in digest.processes if p.parent == digest.processes[0].id]
    assert len(workers) == 2 and not digest.ending.failure
    alarms = ("killed", "SIG", "still inside")
    assert not any(
        word in text
        for word in alarms
        for text in (*said.warnings, *digest.trust.notes)
    )


def test_one_jitted_call_says_so(tmp_path: Path):
    _, said = recorded(
        tmp_path,
        """
        import jax, jax.numpy as jnp

        def step(carry, _):
            w, x = carry
            return (w - 1e-4 * jax.grad(lambda w: jnp.sum(jnp.tanh(x @ w) ** 2))(w), jnp.sin(x)), 0.0

        train = jax.jit(lambda w: jax.lax.scan(step, (w, w), None, 15000)[0])
        jax.block_until_ready(train(jnp.ones((256, 256))))
        """,
    )
    assert said.rule == "one-jitted-call" and "jax.named_scope" in said.advice


@pytest.mark.core
def test_workers_that_crashed_are_told_before_the_interruption(tmp_path: Path):
    _, said = recorded(
        tmp_path,
        """
        import multiprocessing, os, signal, time
        import cutaway

        def work():
            time.sleep(0.1)
            os._exit(3)

        workers = [multiprocessing.get_context("fork").Process(target=work, name=f"worker-{i}") for i in range(2)]
        for worker in workers:
            worker.start()
        for _ in range(5):
            cutaway.iteration()
            with cutaway.operation("simulation"):
                sum(range(200_000))
        for worker in workers:
            worker.join()
        time.sleep(1.3)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)
        """,
        code=-signal.SIGINT,
    )
    first, _, then = said.warnings[0].partition(" Then ")
    assert (
        first.startswith("worker-")
        and "failed with exit code 3 after" in first
        and "1 more process" in first
    )
    assert then.startswith("the program was interrupted") and said.rule == "thin-time"


@pytest.mark.core
def test_a_child_that_fails_is_not_the_program(tmp_path: Path):
    digest, said = recorded(
        tmp_path,
        """
        import os, time
        import cutaway

        child = os.fork()
        if child == 0:
            time.sleep(0.1)
            os._exit(3)
        for _ in range(10):
            cutaway.iteration()
            with cutaway.operation("simulation"):
                time.sleep(0.05)
        os.waitpid(child, 0)
        """,
    )
    assert said.warnings[0].startswith(
        f"A child process (pid {digest.processes[1].pid}) failed with exit code 3"
    )
    assert digest.main.role == ""  # it simulates, but for itself


@pytest.mark.core
def test_your_line_that_lets_a_library_run_several_operations_is_none_to_vectorise(
    tmp_path: Path,
) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "collector.py").write_text(
        textwrap.dedent(
            """
            import time
            import cutaway

            def spin(name, seconds):
                end = time.thread_time() + seconds
                with cutaway.operation(name):
                    while time.thread_time() < end: pass

            def collect(times):
                for _ in range(times):
                    cutaway.iteration()
                    spin("simulation", 0.04)
                    spin("inference", 0.03)
                    yield 1
            """
        )
    )
    digest, _ = recorded(
        tmp_path,
        """
        import sys, time
        sys.path.append("site-packages")
        import cutaway
        from collector import collect

        for batch in collect(15):
            end = time.thread_time() + 0.03
            with cutaway.operation("backpropagation"):
                while time.thread_time() < end: pass
        """,
    )
    lines = evidence(digest).lines
    assert "train.py:" in lines["backpropagation"]
    assert "simulation" not in lines and "inference" not in lines
