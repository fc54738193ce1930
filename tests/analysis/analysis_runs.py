"""A small run whose every number can be checked by hand: a learner with a device, and two workers.

Each of the learner's three iterations takes 1000 ns, from `i * 1000`:

      0  simulation       waits for worker 1 from 10 to 200, for worker 2 from 200 to 390
    400  inference        linear() 420-520, in it a launch 450-470 of a kernel that runs 480-560
    600  backpropagation  backward() 620-980, in it a launch 650-660 of a kernel that runs 700-900,
                          and a synchronising call 700-950
"""

import numpy as np

from cutaway.trace.format import API_DTYPE, DEVICE_DTYPE
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import API_SYNC, DeviceKind, Kind

ITERATIONS = 3


def write_demo(folder):
    with RunWriter(folder, command="train.py --demo", source="tests", cpus=4) as run:
        _learner(run)
        _worker(run, pid=11, pipe=1, busy=(10, 200))
        _worker(run, pid=12, pipe=2, busy=(10, 390))
    return folder


def _learner(run):
    p = run.process(pid=10, name="train.py", role="learner")
    p.log("device", {"id": 0, "name": "Example GPU", "sms": 4, "major": 8, "minor": 0})
    thread = p.thread(tid=10, name="MainThread")
    simulation, inference, backpropagation = map(
        p.name, ("simulation", "inference", "backpropagation")
    )
    first, second = (
        p.call(
            layer="wait",
            fn="os.read",
            file="vec.py",
            line=7,
            func="recv",
            on=f"pipe:{n}",
        )
        for n in (1, 2)
    )
    for n in (1, 2):
        p.log("feeds", {"on": f"pipe:{n}", "tid": 10})
    linear = p.call(
        layer="backend", fn="torch.linear", file="train.py", line=20, func="act"
    )
    backward = p.call(
        layer="backend", fn="Tensor.backward", file="train.py", line=30, func="learn"
    )
    p.thread(tid=99, name="logger").write([100], [50], Kind.CALL, [linear])
    for i in range(ITERATIONS):
        rows = [
            (0, i + 1, Kind.ITERATION, 0),
            (0, 0, Kind.OP_ENTER, simulation),
            (10, 190, Kind.CALL, first),
            (200, 190, Kind.CALL, second),
            (395, 2, Kind.STEP, 0),
            (400, 0, Kind.OP_EXIT, simulation),
            (400, 0, Kind.OP_ENTER, inference),
            (420, 100, Kind.CALL, linear),
            (600, 0, Kind.OP_EXIT, inference),
            (600, 0, Kind.OP_ENTER, backpropagation),
            (620, 360, Kind.CALL, backward),
            (1000, 0, Kind.OP_EXIT, backpropagation),
        ]
        time, value, kind, id = np.array(rows).T
        thread.write(time + 1000 * i, value, kind, id)
        _device(p, 1000 * i)
    for t in (0, 3000):
        p.log(
            "sample",
            {
                "t": t,
                "threads": {"10": [t // 2, t // 10]},
                "rss": 1 << 20,
                "cores": 0.5,
                "foreign": 0.0,
            },
        )
    p.exit(t=3000, code=0)


def _device(p, start):
    api = np.zeros(3, API_DTYPE)
    launch, sync = p.name("cudaLaunchKernel"), p.name("cudaStreamSynchronize")
    api["start"], api["end"] = (
        np.array([450, 650, 700]) + start,
        np.array([470, 660, 950]) + start,
    )
    api["correlation"] = np.array([1, 2, 3]) + start
    api["os_thread"], api["name"], api["flags"] = (
        10,
        [launch, launch, sync],
        [0, 0, API_SYNC],
    )
    p.api(api)
    work = np.zeros(2, DEVICE_DTYPE)
    work["start"], work["end"] = (
        np.array([480, 700]) + start,
        np.array([560, 900]) + start,
    )
    work["correlation"] = np.array([1, 2]) + start
    work["name"] = [p.name("gemm"), p.name("gemm_backward")]
    work["kind"], work["stream"] = DeviceKind.KERNEL, 7
    work["grid"], work["block"] = (8, 1, 1), (128, 1, 1)
    p.device(work)


def _worker(run, pid, pipe, busy):
    p = run.process(pid=pid, ppid=10, name=f"worker {pipe}", role="actor")
    thread = p.thread(tid=pid, name="MainThread")
    simulation = p.name("simulation")
    step = p.call(layer="simulator", fn="Sim.step", file="env.py", line=3, func="step")
    wait = p.call(
        layer="wait",
        fn="os.read",
        file="vec.py",
        line=40,
        func="work",
        on=f"pipe:{pipe}",
    )
    p.log("feeds", {"on": f"pipe:{pipe}", "tid": pid})
    for i in range(ITERATIONS):
        rows = [
            (0, busy[0], Kind.CALL, wait),
            (busy[0], 0, Kind.OP_ENTER, simulation),
            (busy[0], busy[1] - busy[0], Kind.CALL, step),
            (busy[1], 0, Kind.OP_EXIT, simulation),
            (busy[1], 1000 - busy[1], Kind.CALL, wait),
        ]
        time, value, kind, id = np.array(rows).T
        thread.write(time + 1000 * i, value, kind, id)
    p.exit(t=3000, code=0)
