"""The main process works: in Python, in a library, at one operation, or at nothing in particular."""

from __future__ import annotations

from collections.abc import Callable

from cutaway.vocabulary import OPERATIONS

from .. import advice
from ..evidence import Evidence
from ..sentences import how_busy_the_gpu_is, share_of
from ..text import NONE, percent
from .rule import COVERED, Rule

LARGE = 0.4
LESS_OFTEN = ("evaluation", "checkpoint", "sync", "reward", "tool")
"""Operations that can be done less often, or for several at once: that gains more than a faster way to do them."""


class LayerBound(Rule):
    """60 % or more is one layer."""

    code: str
    """What the code of the layer is called."""
    picture = "flame"

    def holds(self, e: Evidence) -> bool:
        if e.top in LESS_OFTEN and e.top_share >= LARGE:
            return False
        return e.layer.get(self.layer, 0.0) >= 0.6

    def because(self, e: Evidence) -> str:
        share = f"{percent(e.layer[self.layer])} of {e.per} is {self.code}"
        most = f"most of it in {e.largest_in(self.layer) or NONE}"
        return f"{share}, {most}{how_busy_the_gpu_is(e)}."

    def gain(self, e: Evidence) -> float | None:
        return e.layer[self.layer] / 2


class PythonGlue(LayerBound):
    name = "python-glue"
    label = "PYTHON-BOUND"
    when = "60 % or more is Python, and no operation that can be done less often (evaluation, checkpoint, sync, reward, tool) takes 40 %"
    layer = "python"
    code = "Python code"
    look = "line"

    def advice(self, e: Evidence) -> str:
        return advice.less_python(e)

    def gain(self, e: Evidence) -> float | None:
        return advice.less_python_gain(e)

    def assumption(self, e: Evidence) -> str:
        return advice.less_python_given(e)


class NativeBound(LayerBound):
    name = "native-bound"
    label = "NATIVE-BOUND"
    when = "60 % or more is NumPy, SciPy, OpenCV, pickle, json or compression, and the same"
    layer = "native"
    code = "native library code (NumPy, SciPy, OpenCV, pickle, compression)"

    def advice(self, e: Evidence) -> str:
        what = (
            "use float32, smaller arrays or fewer copies, and pickle or compress less"
        )
        return advice.hot_line(e, e.largest_in("native"), what)


class OperationBound(Rule):
    """A built-in operation is the largest."""

    def __init__(self, operation: str, to_try: str | Callable[[Evidence], str]) -> None:
        self.operation = operation
        self.name = f"{operation}-bound"
        self.label = f"{operation.upper()}-BOUND"
        self.when = f"`{operation}` is the largest operation, with 40 % or more"
        self._to_try = to_try

    def holds(self, e: Evidence) -> bool:
        return e.top == self.operation and e.top_share >= LARGE

    def because(self, e: Evidence) -> str:
        return share_of(e, self.operation)

    def advice(self, e: Evidence) -> str:
        what = self._to_try if isinstance(self._to_try, str) else self._to_try(e)
        return advice.with_your_line(e, self.operation, what)

    def gain(self, e: Evidence) -> float | None:
        return e.operation[self.operation] / 2


class SimulationBound(OperationBound):
    """It may spread over idle cores."""

    def __init__(self) -> None:
        super().__init__("simulation", advice.parallel_simulation)

    def advice(self, e: Evidence) -> str:
        return advice.parallel_simulation(e)

    def gain(self, e: Evidence) -> float | None:
        return advice.parallel_gain(e)

    def assumption(self, e: Evidence) -> str:
        return advice.parallel_given(e)


class UpdateBound(OperationBound):
    """An update may handle the steps of a rollout one after the other."""

    def __init__(self) -> None:
        super().__init__("backpropagation", advice.cheaper_update)

    def gain(self, e: Evidence) -> float | None:
        return advice.cheaper_update_gain(e)

    def assumption(self, e: Evidence) -> str:
        return advice.cheaper_update_given(e)


class InferenceBound(OperationBound):
    """Batches twice as large halve the number of calls, each of which takes at least as long as before."""

    at_most = True
    given = "with batches twice as large"

    def __init__(self) -> None:
        super().__init__("inference", advice.larger_inference)


class OwnOperation(Rule):
    name = "operation-bound"
    label = "BOUND BY ONE OPERATION"
    when = "an operation of your own is the largest, with 40 % or more"
    look = "line"
    picture = "flame"

    def holds(self, e: Evidence) -> bool:
        return e.top_share >= LARGE and e.top not in OPERATIONS

    def because(self, e: Evidence) -> str:
        return share_of(e, e.top)

    def advice(self, e: Evidence) -> str:
        where = e.lines.get(e.top) or f"code in {e.top}"
        return f"start with your {where}"

    def gain(self, e: Evidence) -> float | None:
        return e.top_share / 2

    def about(self, e: Evidence) -> str:
        return e.top


class PartlyNamed(Rule):
    name = "unnamed"
    label = "PARTLY NAMED"
    when = "none of the above, and more than 20 % of the time has no name"
    look = "line"
    certain = False
    needs_names = False

    def holds(self, e: Evidence) -> bool:
        return e.unnamed > 1 - COVERED

    def because(self, e: Evidence) -> str:
        largest = f"{e.top or NONE} with {percent(e.top_share)}"
        return f"{percent(e.unnamed)} of {e.per} is outside any operation; the largest named part is {largest}."

    def advice(self, e: Evidence) -> str:
        return advice.name_it(e)


class Balanced(Rule):
    name = "balanced"
    label = "BALANCED"
    when = "none of the above"
    look = "line"

    def holds(self, e: Evidence) -> bool:
        return True

    def because(self, e: Evidence) -> str:
        largest = f"{e.top or NONE} with {percent(e.top_share)}"
        return f"no operation dominates {e.per}; the largest is {largest}."

    def advice(self, e: Evidence) -> str:
        return advice.largest_operation(e)

    def about(self, e: Evidence) -> str:
        return e.top


OPERATION_RULES: tuple[Rule, ...] = (
    SimulationBound(),
    InferenceBound(),
    UpdateBound(),
    OperationBound("replay", "store arrays, not objects, and sample whole batches at once"),
    OperationBound("sync", "send weights less often, or in one flat buffer"),
    OperationBound("evaluation", "evaluate less often, or in another process"),
    OperationBound("checkpoint", "save less often, or in a thread"),
    OperationBound("compile", advice.less_compiling),
    OperationBound("search", "evaluate leaves in batches, or search several trees at once"),
    OperationBound("tool", "call tools while other sequences are decoded, or run several at once"),
    OperationBound("generation", advice.faster_generation),
    OperationBound("reward", "compute rewards in batches, or while the next batch is generated"),
    OperationBound("reference", "compute reference log-probabilities in larger batches, or cache them"),
)  # fmt: skip
