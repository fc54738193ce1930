"""With all of torch intercepted, everything that looks at torch's functions, and not only calls them, works as before."""

from __future__ import annotations

import copy
import inspect
import io
import multiprocessing
import operator
import pickle
import threading
import types
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from recorded_calls import names, recording
from torch.overrides import TorchFunctionMode

from cutaway import _recorder
from cutaway.record import layers

BEFORE = {
    "hash": hash(torch.add),
    "repr": repr(torch.Tensor.add),
    "table": {torch.add: "add", torch.mm: "mm"},
}
double_before = torch.ones(2).double  # a bound method from before


@pytest.fixture(scope="module", autouse=True)
def _intercepted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("identity")
    layers.install()
    with recording(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert _recorder.interception()["locations"] > 2000
        yield
    assert len(names(folder, "backend")) > 100


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(x)) + x.sum()


def test_kinds_names_and_documentation() -> None:
    assert isinstance(torch.add, types.BuiltinFunctionType)
    assert isinstance(torch.Tensor.add, types.MethodDescriptorType)
    assert isinstance(vars(torch._C.TensorBase)["T"], types.GetSetDescriptorType)
    assert torch.add.__name__ == "add"
    assert "input" in (torch.add.__doc__ or "")
    assert repr(torch.Tensor.add) == BEFORE["repr"]
    assert inspect.isbuiltin(torch.add)
    assert inspect.ismethoddescriptor(torch.Tensor.add)
    assert not inspect.isfunction(torch.add)


def test_hash_equality_and_tables() -> None:
    assert hash(torch.add) == BEFORE["hash"]
    assert BEFORE["table"][torch.add] == "add"  # type: ignore[index]
    x = torch.ones(2)
    assert x.double == x.double
    assert x.double != double_before
    assert operator.eq(torch.add, torch.add)


def test_pickle_of_functions_and_tensors() -> None:
    assert pickle.loads(pickle.dumps(torch.add)) is torch.add
    assert pickle.loads(pickle.dumps(torch.Tensor.add)) is torch.Tensor.add
    x = torch.arange(4.0)
    assert torch.equal(pickle.loads(pickle.dumps(x)), x)


def test_copies_and_files() -> None:
    net = Linear()
    again = copy.deepcopy(net)
    assert torch.equal(again.inner.weight, net.inner.weight)
    assert copy.deepcopy(torch.add) is torch.add
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    assert torch.equal(torch.load(file)["inner.weight"], net.inner.weight)


def test_jit_script_and_trace() -> None:
    net, x = Linear(), torch.ones(2, 3)
    expected = net(x)
    assert torch.equal(torch.jit.script(net)(x), expected)
    assert torch.equal(torch.jit.trace(net, x)(x), expected)


def test_torch_function_subclass_and_mode_are_given_the_function_itself() -> None:
    seen: list[Any] = []

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    torch.add(torch.ones(2).as_subclass(Mine), 1)
    assert seen[-1] is torch.add or torch.add in seen
    with Mode():
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
    assert torch.mm in seen


def test_tables_of_overrides() -> None:
    assert torch.add in torch.overrides.get_testing_overrides()
    assert torch.Tensor.add in torch.overrides.get_testing_overrides()
    assert torch.overrides.resolve_name(torch.add) == "torch.add"
    assert torch.overrides.is_tensor_method_or_property(torch.Tensor.add)


def test_fake_tensors_and_dispatch_modes() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with FakeTensorMode():
        assert (torch.ones(3, 4) @ torch.ones(4, 5)).shape == (3, 5)
    with Mode():
        torch.ones(2) + 1
    assert "aten.add.Tensor" in seen


def test_fx_and_functorch() -> None:
    net, x = Linear(), torch.ones(2, 3)
    assert torch.equal(torch.fx.symbolic_trace(net)(x), net(x))
    grads = torch.func.vmap(torch.func.grad(lambda v: (v * v).sum()))(x)
    assert torch.equal(grads, 2 * x)


def test_autograd_functions() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return grad * 3 * x**2

    x = torch.tensor([2.0], requires_grad=True)
    Cube.apply(x).backward()
    assert x.grad is not None
    assert x.grad.item() == 12


def test_errors_of_native_code() -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(TypeError):
        torch.add()  # type: ignore[call-overload]
    with pytest.raises(IndexError):
        torch.ones(2)[5]
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(2).sum().backward()


def test_threads() -> None:
    results: list[float] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(
                torch.ones(50, 50).mm(torch.ones(50, 50)).sum().item()
            )
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [125_000.0] * 4


def test_forked_data_loader() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(
        data, batch_size=2, num_workers=1, multiprocessing_context="fork"
    )
    assert torch.cat([batch for (batch,) in loader]).tolist() == list(range(8))


def test_pickles_for_a_spawned_process() -> None:
    assert multiprocessing.reduction.ForkingPickler.dumps(
        (torch.add, torch.Tensor.add, torch.ones(2))
    )


def test_compile_with_the_eager_backend() -> None:
    net, x = Linear(), torch.ones(2, 3)
    assert torch.equal(torch.compile(net, backend="eager", fullgraph=True)(x), net(x))


def test_export() -> None:
    net, x = Linear(), torch.ones(2, 3)
    assert torch.equal(torch.export.export(net, (x,)).module()(x), net(x))


def test_optimizers() -> None:
    for make in (
        torch.optim.SGD,
        torch.optim.Adam,
        lambda p: torch.optim.Adam(p, fused=True),
    ):
        net = Linear()
        before = net.inner.weight.detach().clone()
        optimizer = make(net.parameters())  # type: ignore[operator]
        net.inner(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        assert not torch.equal(before, net.inner.weight)


def test_switching_off_in_between_changes_nothing() -> None:
    net, x = Linear(), torch.ones(2, 3)
    expected = net(x)
    compiled = torch.compile(net, backend="eager")
    for _ in range(3):
        _recorder.pause()
        assert torch.equal(compiled(x), expected)
        assert BEFORE["table"][torch.mm] == "mm"  # type: ignore[index]
        _recorder.resume()
        assert torch.equal(compiled(x), expected)
