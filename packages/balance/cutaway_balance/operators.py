"""Floating-point operations and bytes of an operator, from its input shapes.

Bytes are the least that must move: every input and the output once. Matrix products follow the usual convention of 2·M·N·K, plus
M·N for a bias. Returns None for what is not known: an unknown operator is uncovered, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

Shape = Sequence[int]


class Cost(NamedTuple):
    flops: float
    bytes: float
    dtype: str
    matrix: bool


class Operator(NamedTuple):
    """An operator: name, shapes and element types of its inputs, concrete values where the trace has them, launches of each call."""

    name: str
    shapes: Sequence[Shape]
    types: Sequence[str]
    concrete: Sequence[str] = ()
    calls: Sequence[Sequence[int]] = ()


def cost(op: Operator) -> Cost | None:
    """What one call costs.

    >>> cost(Operator("aten::mm", [[141, 512], [512, 512]], ["float", "float"])).flops == 2 * 141 * 512 * 512
    True
    """
    name = op.name.removeprefix("aten::").rstrip("_")
    try:
        if name in _POINTWISE:
            return _elementwise(op, *_POINTWISE[name])
        return _RULES[name](op)
    except (KeyError, IndexError, ValueError, TypeError):
        return (
            None  # an operator that has no rule, or a shape that its rule does not know
        )


def width(dtype: str) -> int:
    """Bytes of an element.

    >>> width("c10::BFloat16"), width("float"), width("long int")
    (2, 4, 8)
    """
    for size, words in (
        (1, ("float8", "fp8", "bool", "char", "byte", "int8")),
        (2, ("half", "bfloat16", "float16", "short")),
        (8, ("double", "long", "int64", "complexfloat")),
    ):
        if any(word in dtype.lower() for word in words):
            return size
    return 4


def _gemm(m: int, n: int, k: int, batch: int, dtype: str, bias: Shape | None) -> Cost:
    flops = batch * 2.0 * m * n * k
    moved = batch * (m * k + k * n + m * n)
    if bias is not None:
        flops = flops + batch * m * n
        moved = moved + prod(bias)
    return Cost(flops, float(width(dtype) * moved), dtype, True)


def _product(op: Operator) -> Cost:
    """A matrix product, perhaps batched. `addmm` and `baddbmm` add it to their first input."""
    if "add" in op.name:
        bias = op.shapes[0]
    else:
        bias = None
    first = 0 if bias is None else 1
    *batch, m, k = op.shapes[first]
    return _gemm(m, op.shapes[first + 1][-1], k, prod(batch), op.types[first], bias)


def _linear(op: Operator) -> Cost:
    *rows, k = op.shapes[0]
    if len(op.shapes) > 2 and op.shapes[2]:
        bias = op.shapes[2]
    else:
        bias = None
    return _gemm(prod(rows), op.shapes[1][0], k, 1, op.types[0], bias)


def _convolution(op: Operator) -> Cost:
    def numbers(argument: int) -> list[int]:
        values = [
            int(v) for v in op.concrete[argument].strip("[]").split(",") if v.strip()
        ]
        if len(values) == 1:
            return values * len(kernel)
        return values

    batch, _, *image = op.shapes[0]
    out, per_group, *kernel = op.shapes[1]
    outputs = batch * out
    for size, window, s, p, d in zip(
        image, kernel, numbers(3), numbers(4), numbers(5), strict=True
    ):
        outputs *= (
            size + 2 * p - d * (window - 1) - 1
        ) // s + 1  # stride, padding, dilation
    moved = prod(op.shapes[0]) + prod(op.shapes[1]) + outputs
    flops = 2.0 * outputs * per_group * prod(kernel)
    return Cost(flops, float(width(op.types[0]) * moved), op.types[0], True)


def _convolution_backward(op: Operator) -> Cost:
    gradient, image, weight = op.shapes[:3]
    flops = (
        2 * prod(gradient) * 2.0 * weight[1] * prod(weight[2:])
    )  # towards the input and towards the weights
    moved = prod(gradient) + 2 * prod(image) + 2 * prod(weight)
    return Cost(flops, float(width(op.types[0]) * moved), op.types[0], True)


def _elementwise(op: Operator, inputs: int, flops: float) -> Cost:
    size = max(prod(s) for s in op.shapes[:inputs] if s)
    given = zip(op.shapes[:inputs], op.types[:inputs], strict=False)
    moved = sum(prod(s) * width(t) for s, t in given) + size * width(op.types[0])
    return Cost(flops * size, float(moved), op.types[0], False)


_RULES: dict[str, Callable[[Operator], Cost]] = {
    **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm"), _product),
    "linear": _linear,
    **dict.fromkeys(
        ("convolution", "_convolution", "cudnn_convolution", "miopen_convolution"),
        _convolution,
    ),
    "convolution_backward": _convolution_backward,
}
# name: (tensor inputs, operations for each element of the output)
_POINTWISE = {
    name: (inputs, flops)
    for inputs, flops, names in (
        (
            2,
            1.0,
            "add sub mul div rsub maximum minimum eq ne lt gt le ge threshold_backward",
        ),
        (1, 1.0, "neg abs relu sqrt rsqrt pow fill clone sum mean all any"),
        (1, 10.0, "exp log tanh sigmoid silu gelu _softmax _log_softmax"),
        (2, 3.0, "tanh_backward lerp"),
        (3, 3.0, "addcmul addcdiv"),
        (1, 8.0, "native_layer_norm"),
        (2, 0.0, "copy"),
        (1, 0.0, "cat"),
    )
    for name in names.split()
}
