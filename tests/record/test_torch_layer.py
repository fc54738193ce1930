"""Layer backend with PyTorch: all ways into native code are seen; the trivial ones are not; Python called back is Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.torch_coverage import measure
from recorded_calls import Seen, calls, names, recording

from cutaway import _recorder
from cutaway.record import layers


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    layers.install()
    with recording(tmp_path):
        yield tmp_path


def _backend(run: Path) -> list[Seen]:
    layers.remove()
    _recorder.stop()
    return calls(run, "backend")


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("torch.mm", lambda x: torch.mm(x, x)),
        ("torch._nn.linear", lambda x: torch.nn.functional.linear(x, x)),
        ("torch._linalg.linalg_norm", lambda x: torch.linalg.norm(x)),
        ("torch._fft.fft_fft", lambda x: torch.fft.fft(x)),
        ("torch._special.special_erf", lambda x: torch.special.erf(x)),
        ("Tensor.sum", lambda x: x.sum()),
        ("Tensor.__add__", lambda x: x + x),
        ("Tensor.__radd__", lambda x: 1 + x),
        ("Tensor.__matmul__", lambda x: x @ x),
        ("Tensor.__lt__", lambda x: x < x),
        ("Tensor.__bool__", lambda x: bool(x[0, 0] > 0)),
        ("Tensor.__getitem__", lambda x: x[0]),
        ("Tensor.__setitem__", lambda x: x.__setitem__(0, 1.0)),
        ("Tensor.__new__", lambda x: torch.Tensor(2)),
        ("torch.FloatTensor.__new__", lambda x: torch.FloatTensor([1.0])),
        ("Tensor.T", lambda x: x.T),
        ("Tensor.numpy", lambda x: x.numpy()),
        ("Tensor.tolist", lambda x: x.tolist()),
        ("Tensor.item", lambda x: x[0, 0].item()),
        ("torch.tensor", lambda x: torch.tensor([1.0])),
        ("torch.from_numpy", lambda x: torch.from_numpy(x.numpy())),
        ("torch._foreach_add_", lambda x: torch._foreach_add_([x], 1.0)),
        ("torch.ops.aten.add.Tensor", lambda x: torch.ops.aten.add.Tensor(x, x)),
        ("torch.ops.aten.mul", lambda x: torch.ops.aten.mul(x, x)),
        ("torch.Generator.manual_seed", lambda x: torch.Generator().manual_seed(1)),
    ],
)
def test_every_way_into_torch_is_seen(run: Path, name: str, call: Any) -> None:
    call(torch.ones(3, 3))
    seen = [c for c in _backend(run) if c.fn == name]
    assert len(seen) >= 1
    assert all(c.end > c.start for c in seen)


def test_trivial_queries_are_left_out(run: Path) -> None:
    x = torch.ones(3, 3)
    for _ in range(10):
        (
            x.size(),
            x.dim(),
            x.shape,
            x.dtype,
            x.device,
            x.requires_grad,
            x.grad,
            x.numel(),
            x.is_contiguous(),
        )
        torch.is_grad_enabled(), torch.get_default_dtype()
        with torch.no_grad():
            pass
    assert [c.fn for c in _backend(run)] == ["torch.ones"]


def test_backward_runs_in_the_backend_and_the_optimizer_too(run: Path) -> None:
    layer = torch.nn.Linear(4, 4)
    adam = torch.optim.Adam(layer.parameters(), fused=True)
    layer(torch.ones(2, 4)).sum().backward()
    adam.step()
    seen = {c.fn for c in _backend(run)}
    assert {
        "torch._nn.linear",
        "torch.autograd.Engine.run_backward",
        "torch._fused_adam_",
    } <= seen


def test_autograd_functions_are_python_while_they_run(run: Path) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad.neg()

    x = torch.ones(3, requires_grad=True)
    Twice.apply(x).sum().backward()
    layers.remove()
    _recorder.stop()
    seen = calls(run)
    (forward,) = [c for c in seen if c.fn == "Tensor.__mul__"]
    (backward,) = [c for c in seen if c.fn == "Tensor.neg"]
    assert forward.parents == ("torch.autograd.Function.apply", "forward")
    assert backward.parents == ("torch.autograd.Engine.run_backward", "apply")
    assert {c.layer for c in seen if c.fn in ("forward", "apply")} == {"python"}


def test_hooks_on_tensors_are_python_while_they_run(run: Path) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: grad.neg())
    x.register_hook(lambda grad: grad.abs())
    y.sum().backward()
    layers.remove()
    _recorder.stop()
    by_name = {c.fn: c for c in calls(run)}
    assert by_name["Tensor.neg"].parents == (
        "torch.autograd.Engine.run_backward",
        "<lambda>",
    )
    assert by_name["Tensor.abs"].parents == (
        "torch.autograd.Engine.run_backward",
        "<lambda>",
    )


def test_jit_calls(run: Path) -> None:
    @torch.jit.script
    def both(x: torch.Tensor) -> torch.Tensor:
        return x + x

    module = torch.jit.script(torch.nn.Linear(3, 3))
    both(torch.ones(3))
    module(torch.ones(3))
    seen = {c.fn for c in _backend(run)}
    assert {"torch.ScriptFunction.__call__", "torch.ScriptMethod.__call__"} <= seen


def test_recording_changes_no_result(tmp_path: Path) -> None:
    def train() -> torch.Tensor:
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
        )
        adam = torch.optim.Adam(net.parameters())
        for _ in range(20):
            loss = net(torch.randn(32, 8)).pow(2).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
        return torch.cat([p.detach().flatten() for p in net.parameters()])

    before = train()
    layers.install()
    with recording(tmp_path):
        during = train()
    assert torch.equal(before, during)
    assert torch.equal(before, train())
    assert len(names(tmp_path, "backend")) > 1000


@pytest.mark.parametrize(
    ("algorithm", "steps"), [("PPO", 64), ("DQN", 96), ("SAC", 16)]
)
def test_the_profiler_of_torch_sees_next_to_nothing_outside(
    tmp_path: Path, algorithm: str, steps: int
) -> None:
    shares = []
    # An interruption between two calls only lowers it.
    while len(shares) < 4 and max(shares, default=0) < 0.99:
        share, operators = measure(algorithm, steps, tmp_path / f"run{len(shares)}")
        assert operators > 1000
        shares.append(share)
    assert max(shares) >= 0.99


def test_errors_of_torch_are_the_same_and_leave_the_nesting_whole(run: Path) -> None:
    x = torch.ones(3, 4)

    def fails(call: Any) -> tuple[type, str]:
        with pytest.raises(Exception) as caught:
            call()
        return caught.type, str(caught.value)

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            raise KeyError("mine")

    attempts = [
        lambda: torch.mm(x, x),  # c10::Error from a kernel
        lambda: x + torch.ones(5, 5),  # from an operator's slot
        lambda: x[7],  # IndexError
        lambda: torch.ones(2, out=3),  # type: ignore[call-overload]  # from parsing the arguments
        lambda: Broken.apply(
            torch.ones(1, requires_grad=True)
        ).backward(),  # Python, C++ and back to Python
        lambda: torch.ops.aten.mm(x, x),
    ]
    recorded = [fails(call) for call in attempts for _ in range(3)]
    x.mul(2)
    seen = _backend(run)
    assert recorded == [
        fails(call) for call in attempts for _ in range(3)
    ]  # now without recording
    assert [c.parents for c in seen if c.fn == "torch.mm"] == [(), (), ()]
    assert seen[-1].fn == "Tensor.mul" and seen[-1].parents == ()
