"""Measures every native callable of torch on a small tensor, and lists those not worth recording.

    python benchmarks/trivial_calls.py            prints the list and what each costs
    python benchmarks/trivial_calls.py --write    writes src/cutaway/record/layers/torch_trivial.txt

The rule: trivial is what takes less than 60 ns by itself, or what reaches no operator (nothing is dispatched: it answers from
memory or sets a flag) and takes less than 400 ns. What cannot be called here stays recorded. Each callable is tried in a
forked child with a time limit, because some of them change global state or crash by design.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cutaway.record import layers
from cutaway.record.layers import torch as layer

FAST_NS = 60
QUERY_NS = 400
OUT = Path(layer.__file__).with_name("torch_trivial.txt")
# Functions that need a particular argument; all others are tried with a few tensors and numbers.
ARGUMENTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "torch._C._has_torch_function": lambda x: ((x,),),
    "torch._C._set_grad_enabled": lambda x: (True,),
    "torch._C._set_deterministic_algorithms": lambda x: (False,),
    "torch._C._set_should_use_format_with_string_table": lambda x: (False,),
    "torch._C._stash_obj_in_tls": lambda x: ("key", x),
    "torch._C._is_key_in_tls": lambda x: ("key",),
    "torch._C._autocast_decrement_nesting": lambda x: (),
    "torch._C._log_api_usage_once": lambda x: ("name",),
    "torch.is_autocast_enabled": lambda x: ("cpu",),
    "torch.get_autocast_dtype": lambda x: ("cpu",),
    "torch.set_grad_enabled": lambda x: (True,),
    "torch.promote_types": lambda x: (torch.float32, torch.float64),
    "torch.can_cast": lambda x: (torch.float32, torch.float64),
    "torch._C._set_cudnn_enabled": lambda x: (True,),
    "torch._C._DisableTorchDispatch": lambda x: (),
    "torch._C._len_torch_dispatch_stack": lambda x: (),
    "torch._C._get_privateuse1_backend_name": lambda x: (),
    "torch._C._dispatch_key_for_device": lambda x: ("cpu",),
    "torch._C._has_torch_function_variadic": lambda x: (x, x),
    "torch._C._has_torch_function_unary": lambda x: (x,),
    "Tensor.type_as": lambda x: (torch.ones(2, dtype=torch.float16),),
}
NEVER = (
    "_crash",
    "_cuda",
    "_mps",
    "_xpu",
    "_mtia",
    "_accelerator",
    "_rename",
    "_initExt",
    "_init",
    "abort",
    "_exit",
    "_jit_",
)


NUMBERS = torch.ones(3).numpy()


class Count(TorchDispatchMode):
    """Counts the operators that reach the dispatcher."""

    operators = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.operators += 1
        return func(*args, **(kwargs or {}))


def inputs() -> list[Any]:
    """Tensors that leave nothing for free: what returns its argument for one of them has work to do for another."""
    return [
        torch.ones(4, 4),
        torch.arange(12).view(4, 3).t(),
        torch.ones(4, 4, dtype=torch.float64)[:, ::2],
        torch.ones(4, 4, dtype=torch.complex64).conj(),
    ]


def attempts(name: str, value: Any, x: Any) -> Iterator[Callable[[], Any]]:
    """Ways to call it; those with a wrong signature fail."""
    given = ARGUMENTS.get(name)
    short = name.rpartition(".")[2]
    if type(value).__name__ == "getset_descriptor":
        yield lambda: getattr(x, short)
        return
    usual = [
        (),
        (x,),
        (x, x),
        (x, 1),
        (x, 0, 1),
        (x, (2, 2)),
        ((x, x),),
        (0,),
        (2, 2),
        ([1.0, 2.0],),
        (NUMBERS,),
        (x, x, x),
    ]
    choices = [given(x)] if given else ([()] if name.startswith("torch._C.") else usual)
    for arguments in choices:
        if name.startswith("Tensor."):
            arguments = (x, *arguments)
        yield lambda arguments=arguments: value(*arguments)  # type: ignore[misc]


def measure(name: str, value: Any) -> dict[str, Any] | None:
    """Its own duration in ns and the operators it reached, the most of all ways; None if no way to call it works."""
    worst: dict[str, Any] | None = None
    for call in (call for x in inputs() for call in attempts(name, value, x)):
        try:
            with Count() as count:
                call()
            result = {"ns": _shortest(call), "operators": count.operators}
        except Exception:
            continue
        worst = {key: max(result[key], (worst or result)[key]) for key in result}
        if not is_trivial(worst):
            break
    return worst


def _shortest(call: Callable[[], Any]) -> float:
    def nothing() -> None: ...

    return max(
        0.0, min(_loop(call) for _ in range(8)) - min(_loop(nothing) for _ in range(8))
    )


def _loop(call: Callable[[], Any], n: int = 50) -> float:
    start = time.thread_time_ns()
    for _ in range(n):
        call()
    return (time.thread_time_ns() - start) / n


Measure = Callable[[str, Any], dict[str, Any] | None]


def in_child(
    name: str, value: Any, seconds: float = 20.0, measure: Measure = measure
) -> dict[str, Any] | None:
    """What `measure` says, tried in a process that may fail."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        signal.alarm(int(seconds) + 1)
        os.write(write, json.dumps(measure(name, value)).encode())
        os._exit(0)
    os.close(write)
    ready, _, _ = select.select([read], [], [], seconds)
    text = os.read(read, 1000) if ready else b""
    if not ready:
        os.kill(pid, signal.SIGKILL)
    os.close(read)
    os.waitpid(pid, 0)
    return json.loads(text) if text else None  # type: ignore[no-any-return]


def is_trivial(result: dict[str, Any]) -> bool:
    return bool(
        result["ns"] < FAST_NS or (not result["operators"] and result["ns"] < QUERY_NS)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # What torch loads at the first dispatch is loaded before the forks.
    measure("Tensor.add", torch.Tensor.add)
    trivial, measured, total = [], 0, 0
    for name, value in layer.callables(torch):
        if not (layers.is_native(value) or type(value).__name__ == "getset_descriptor"):
            continue
        total += 1
        if any(name.rpartition(".")[2].startswith(word) for word in NEVER):
            continue
        result = in_child(name, value)
        measured += result is not None
        if result is not None and is_trivial(result):
            trivial.append(name)
            print(
                f"{name:60} {result['ns']:6.0f} ns  operators {result['operators']}",
                flush=True,
            )
    print(f"{total} callables, {measured} measured, {len(trivial)} trivial")
    if arguments.write:
        head = f"# Written by benchmarks/trivial_calls.py with torch {torch.__version__}: not recorded.\n"
        OUT.write_text(head + "\n".join(sorted(set(trivial))) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
