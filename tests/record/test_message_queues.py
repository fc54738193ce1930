"""Real message queues: who receives over ZeroMQ or gRPC sleeps in native code that Cutaway does not know. That is waiting."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, script

import cutaway
from cutaway.analysis.run import Run
from cutaway.reports.digests import digest_at
from cutaway.reports.evidence import evidence
from cutaway.reports.verdict import judge

HELD_S, TIMES = 0.12, 12
"""What is sent comes so long after the learner has begun to wait for it, however busy the machine is."""
LEARNER = f"""
import sys, threading, time
sys.path.append({str(Path(__file__).parent)!r})
from blocked import until_blocked
import cutaway

learner = threading.get_native_id()

def hold_back():
    until_blocked(learner)
    time.sleep({HELD_S})

def compute():
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass

def learn(receive):
    for _ in range({TIMES}):
        cutaway.iteration()
        with cutaway.operation("backpropagation"):
            compute()
        receive()  # here
"""
ZEROMQ = """
import zmq

def act(port):
    push = zmq.Context.instance().socket(zmq.PUSH)
    push.connect(f"tcp://127.0.0.1:{port}")
    while True:
        hold_back()
        push.send(b"rollout")

pull = zmq.Context.instance().socket(zmq.PULL)
port = pull.bind_to_random_port("tcp://127.0.0.1")
threading.Thread(target=act, args=(port,), daemon=True).start()
pull.recv()
learn(pull.recv)
"""
GRPC = """
from concurrent import futures
import grpc

def sample(request, context):
    hold_back()
    return b"batch"

handlers = {"Sample": grpc.unary_unary_rpc_method_handler(sample)}
server = grpc.server(futures.ThreadPoolExecutor(1))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Replay", handlers),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/Replay/Sample")
call(b"", wait_for_ready=True)
learn(lambda: call(b""))  # here
server.stop(0)
"""


def _recorded(folder: Path, program: str) -> Run:
    record(folder, script(folder, LEARNER + program))
    return cutaway.open(folder / "run.cutaway")


@pytest.mark.parametrize("program", [ZEROMQ, GRPC], ids=["zmq", "grpc"])
def test_receiving_is_waiting_at_your_line_and_never_python(
    tmp_path: Path, program: str
) -> None:
    run = _recorded(tmp_path, program)
    own = run.lines().where(layer="wait", native="native code")
    assert int(own["ns"].sum()) > 0.8 * TIMES * HELD_S * 1e9
    text = (tmp_path / "train.py").read_text().splitlines()
    here = {1 + at for at, line in enumerate(text) if "# here" in line}
    assert here.intersection(own["your_line"].tolist())
    assert own["operation"].tolist() == [""] * len(own)
    seen = evidence(digest_at(tmp_path / "run.cutaway"))
    if not seen.shared:
        said = judge(seen)
        assert said.rule == "waiting" and "train.py" in said.because
