"""Floating-point operations and bytes of an operator, from its input shapes.

Bytes are the least that must move: every input and the output once. Matrix products follow the usual convention of 2·M·N·K, plus
M·N for a bias. Returns None for what is not known: an unknown operator is uncovered, never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

Shape = Sequence[int]


class Cost(NamedTuple):
    flops: float
    bytes: float
    dtype: str
    matrix: bool


class Operator(NamedTuple):
    """A call of an operator: name, shapes and element types of its inputs, concrete values where the trace has them."""

    name: str
    shapes: Sequence[Shape]
    types: Sequence[str]
    concrete: Sequence[str] = ()


def cost(op: Operator) -> Cost | None:
    """What one call costs.

    >>> cost(Operator("aten::mm", [[141, 512], [512, 512]], ["float", "float"])).flops == 2 * 141 * 512 * 512
    True
    """
    name = op.name.removeprefix("aten::").rstrip("_")
    rule = _RULES.get(name)
    try:
        if rule is not None:
            return rule(op)
        return _elementwise(op, *_POINTWISE[name]) if name in _POINTWISE else None
    except (IndexError, ValueError, TypeError):
        return None  # a shape the rule does not know


def width(dtype: str) -> int:
    """Bytes of an element.

    >>> width("c10::BFloat16"), width("float"), width("long int")
    (2, 4, 8)
    """
    name = dtype.lower()
    for size, words in (
        (1, ("float8", "fp8", "bool", "char", "byte", "int8")),
        (2, ("half", "bfloat16", "float16", "short")),
        (8, ("double", "long", "int64", "complexfloat")),
    ):
        if any(word in name for word in words):
            return size
    return 4


def _numel(shape: Shape) -> int:
    return math.prod(shape)


def _gemm(m: int, n: int, k: int, batch: int, dtype: str, bias: Shape | None) -> Cost:
    w = width(dtype)
    flops = batch * 2.0 * m * n * k + (batch * m * n if bias is not None else 0)
    moved = batch * (m * k + k * n + m * n) + (_numel(bias) if bias is not None else 0)
    return Cost(flops, float(w * moved), dtype, True)


def _product(first: int, bias: bool) -> Callable[[Operator], Cost]:
    """A (batched) matrix product whose two factors are the inputs from `first` on; with `bias`, input 0 is added to it."""

    def rule(op: Operator) -> Cost:
        *batch, m, k = op.shapes[first]
        n = op.shapes[first + 1][-1]
        return _gemm(m, n, k, _numel(batch), op.types[first], op.shapes[0] if bias else None)

    return rule


def _linear(op: Operator) -> Cost:
    *rows, k = op.shapes[0]
    n = op.shapes[1][0]
    bias = op.shapes[2] if len(op.shapes) > 2 and op.shapes[2] else None
    return _gemm(_numel(rows), n, k, 1, op.types[0], bias)


def _convolution(op: Operator) -> Cost:
    batch, _, *image = op.shapes[0]
    out, per_group, *kernel = op.shapes[1]
    stride, padding, dilation = (_ints(op.concrete[i], len(kernel)) for i in (3, 4, 5))
    result = [
        (size + 2 * p - d * (window - 1) - 1) // s + 1
        for size, window, s, p, d in zip(image, kernel, stride, padding, dilation, strict=True)
    ]
    w = width(op.types[0])
    outputs = batch * out * _numel(result)
    flops = 2.0 * outputs * per_group * _numel(kernel)
    return Cost(flops, float(w * (_numel(op.shapes[0]) + _numel(op.shapes[1]) + outputs)), op.types[0], True)


def _convolution_backward(op: Operator) -> Cost:
    gradient, image, weight = op.shapes[0], op.shapes[1], op.shapes[2]
    per_output = 2.0 * weight[1] * _numel(weight[2:])
    flops = 2 * _numel(gradient) * per_output  # towards the input and towards the weights
    moved = _numel(gradient) + 2 * _numel(image) + 2 * _numel(weight)
    return Cost(flops, float(width(op.types[0]) * moved), op.types[0], True)


def _ints(text: str, count: int) -> list[int]:
    values = [int(v) for v in text.strip("[]").split(",") if v.strip()]
    return values * count if len(values) == 1 else values


def _elementwise(op: Operator, inputs: int, flops: float) -> Cost:
    size = max(_numel(s) for s in op.shapes[:inputs] if s)
    given = zip(op.shapes[:inputs], op.types[:inputs], strict=False)
    moved = sum(_numel(s) * width(t) for s, t in given) + size * width(op.types[0])
    return Cost(flops * size, float(moved), op.types[0], False)


_RULES: dict[str, Callable[[Operator], Cost]] = {
    **dict.fromkeys(("mm", "bmm"), _product(0, bias=False)),
    **dict.fromkeys(("addmm", "baddbmm"), _product(1, bias=True)),
    "linear": _linear,
    **dict.fromkeys(("convolution", "_convolution", "cudnn_convolution", "miopen_convolution"), _convolution),
    "convolution_backward": _convolution_backward,
}

# name: (tensor inputs, operations for each element of the output)
_POINTWISE: dict[str, tuple[int, float]] = {
    **dict.fromkeys(
        ("add", "sub", "mul", "div", "rsub", "maximum", "minimum", "eq", "ne", "lt", "gt", "le", "ge"),
        (2, 1.0),
    ),
    **dict.fromkeys(
        ("neg", "abs", "relu", "sqrt", "rsqrt", "pow", "fill", "clone", "sum", "mean", "all", "any"), (1, 1.0)
    ),
    **dict.fromkeys(("exp", "log", "tanh", "sigmoid", "silu", "gelu", "_softmax", "_log_softmax"), (1, 10.0)),
    "copy": (2, 0.0),
    "cat": (1, 0.0),
    "threshold_backward": (2, 1.0),
    "tanh_backward": (2, 3.0),
    "native_layer_norm": (1, 8.0),
    "addcmul": (3, 3.0),
    "addcdiv": (3, 3.0),
    "lerp": (2, 3.0),
}
