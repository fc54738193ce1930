"""Opens operations around methods: in the classes there are, and in those that will be defined.

The method in the class is replaced by a `Span`, a C object that binds, introspects and pickles like the function
inside it, and costs some ten nanoseconds when nothing records. `restore` puts the functions back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, ModuleType

from cutaway import _recorder
from cutaway.record.imports import Any, when_imported
from cutaway.vocabulary import OPERATIONS

# Inside an operation on the right, the one on the left is not opened: it is part of the other's work. Evaluation and
# checkpoints stay whole, so that their simulation is not taken for training. What is called while a function is
# traced for compiling computes nothing.
_APART = ("evaluation", "checkpoint", "compile")
HIDDEN_IN: dict[str | None, tuple[str, ...]] = {
    None: (),
    **{name: (name, *_APART) for name in OPERATIONS},
    "inference": (
        "inference",
        "backpropagation",
        "generation",
        "reference",
        "reward",
        *_APART,
    ),
    "evaluation": ("evaluation",),
    "checkpoint": ("checkpoint", "evaluation"),
    "compile": ("compile",),
}

_NOTHING = object()
# Owner, attribute, its old value (or _NOTHING), and ours.
_changed: list[tuple[Any, str, Any, Any]] = []
_visits: list[tuple[type, Callable[[type], None]]] = []
# Spans that only look at what a method returns (behaviour.py): a rule that knows the method takes their place.
watched: set[Any] = set()


class Rule:
    """Which methods of a class are which operation: `Rule("mylib.agents", "Agent+", inference="act", replay="store sample")`.

    All names have spaces between them. `Agent+` means its subclasses, too, and those that are defined later (`instrument_family`). With
    "" for the class, functions of the module. `counted` are methods that are no operation, `parts` methods of operations that are not
    built in. `by` instruments them, if not `instrument`; the
    rest are its options.
    """

    def __init__(
        self,
        modules: str,
        owner: str,
        counted: str = "",
        *,
        simulation: str = "",
        inference: str = "",
        backpropagation: str = "",
        replay: str = "",
        sync: str = "",
        evaluation: str = "",
        checkpoint: str = "",
        compile: str = "",
        search: str = "",
        generation: str = "",
        reward: str = "",
        reference: str = "",
        prefill: str = "",
        decode: str = "",
        tool: str = "",
        parts: dict[str, str] | None = None,
        steps: int | str | Callable[[Any, Any], int] | None = None,
        iteration: bool = False,
        update: bool = False,
        mark: str | None = None,
        gradients: Callable[[], bool] | None = None,
        unless: Callable[[], bool] | None = None,
        on_enter: Callable[[Any], None] | None = None,
        on_exit: Callable[[Any, Any], None] | None = None,
        hidden_in: Sequence[str] | None = None,
        around: Callable[..., Any] | None = None,
        leave: Callable[[type], bool] | None = None,
        by: Callable[..., None] | None = None,
    ) -> None:
        self.modules, self.owner, self.by = modules.split(), owner, by or instrument
        named: dict[str | None, str] = {
            None: counted,
            "simulation": simulation,
            "inference": inference,
            "backpropagation": backpropagation,
            "replay": replay,
            "sync": sync,
            "evaluation": evaluation,
            "checkpoint": checkpoint,
            "compile": compile,
            "search": search,
            "generation": generation,
            "reward": reward,
            "reference": reference,
            "prefill": prefill,
            "decode": decode,
            "tool": tool,
        }
        named.update(parts or {})
        self.methods = {
            operation: names.split() for operation, names in named.items() if names
        }
        options = {
            "steps": steps,
            "iteration": iteration,
            "update": update,
            "mark": mark,
            "gradients": gradients,
            "unless": unless,
            "on_enter": on_enter,
            "on_exit": on_exit,
            "hidden_in": hidden_in,
            "around": around,
            "leave": leave,
        }
        self.options: dict[str, Any] = {
            name: value
            for name, value in options.items()
            if value is not None and value is not False
        }

    def install(self) -> None:
        """Instrument them once their module has been imported."""
        for name in self.modules:
            when_imported(name, self._apply)

    def _apply(self, module: ModuleType) -> None:
        owner: Any = getattr(module, self.owner.rstrip("+")) if self.owner else module
        for operation, methods in self.methods.items():
            if self.owner.endswith("+"):
                instrument_family(owner, methods, operation, **self.options)
            else:
                for name in methods:
                    self.by(owner, name, operation, **self.options)


def span(function: Callable[..., Any], operation: str | None, **options: Any) -> Any:
    """A callable that opens `operation` around each call of a function, unless it is part of an operation that is open."""
    usual = HIDDEN_IN.get(operation, (operation or "", *_APART))
    hidden_in = options.pop("hidden_in", usual)
    return _recorder.Span(function, operation, hidden_in=hidden_in, **options)


def original(function: Any) -> Any:
    """The function inside a span; any other function as it is."""
    instrumented = type(function) is _recorder.Span
    return function.__wrapped__ if instrumented else function


def instrument(
    owner: type | ModuleType,
    name: str,
    operation: str | None,
    around: Callable[..., Any] | None = None,
    **options: Any,
) -> None:
    """Open `operation` around every call of the Python function `name` of a class or module.

    With `around`, that is called instead, and given the function before its arguments.
    """
    function = vars(owner).get(name)
    if type(function) is _recorder.Span and function in watched:
        watched.discard(function)
        function = original(function)
    # isinstance would also hold for what is instrumented already; and Ray wraps the methods of actors once more.
    if (
        type(function) is not FunctionType
        or type(getattr(function, "__wrapped__", None)) is _recorder.Span
    ):
        return
    inner: Any = function
    if around is not None:

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return around(function, *args, **kwargs)

        # AutoGraph compiles the Python functions it meets into graphs; those with this attribute it only calls.
        inner.autograph_info__ = {}
    replace(owner, name, span(inner, operation, **options))


def instrument_family(
    base: type,
    names: Sequence[str],
    operation: str | None,
    leave: Callable[[type], bool] | None = None,
    **options: Any,
) -> None:
    """Instrument methods in a class and all its subclasses, including those defined later, but not those to leave."""

    def visit(cls: type) -> None:
        if leave is not None and leave(cls):
            return
        for name in names:
            # A method may come from a mixin that is no subclass of `base` itself.
            owner = next((c for c in cls.__mro__ if name in vars(c)), None)
            if owner is not None:
                instrument(owner, name, operation, **options)

    waiting, seen = [base], {base}
    while waiting:
        cls = waiting.pop()
        visit(cls)
        below: list[type] = type.__subclasses__(cls)
        waiting += [new for new in below if new not in seen]
        seen.update(below)
    watch(base, visit)


def instrument_items(
    owner: type, name: str, operation: str | None, **options: Any
) -> None:
    """Open `operation` around the making of each item by the generator function `name`, not around its use."""
    function = vars(owner).get(name)
    if type(function) is not FunctionType:
        return

    class Items:
        """The generator, with an instrumented `__next__`."""

        def __init__(self, items: Iterator[Any]) -> None:
            self._items = items

        def __iter__(self) -> Items:
            return self

        def __next__(self) -> Any:
            return next(self._items)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._items, name)

    def items(*args: Any, **kwargs: Any) -> Any:
        return Items(function(*args, **kwargs))

    instrument(Items, "__next__", operation, **options)
    items.__wrapped__ = function  # type: ignore[attr-defined]
    replace(owner, name, items)


def watch(base: type, visit: Callable[[type], None]) -> None:
    """Call `visit` for each class that is derived from `base` from now on."""
    before = vars(base).get("__init_subclass__")
    owner: Any = base

    def __init_subclass__(cls: Any, /, **arguments: Any) -> None:
        if before is not None:
            before.__get__(None, cls)(**arguments)
        else:
            super(owner, cls).__init_subclass__(**arguments)
        try:
            visit(cls)
        except Exception as error:  # the class must be defined, whatever happens to us
            _recorder.note(
                f"{cls.__qualname__} is not recorded: {type(error).__name__}: {error}"
            )

    replace(base, "__init_subclass__", classmethod(__init_subclass__))
    _visits.append((base, visit))


def revisit(cls: type, nothing: Any = None) -> None:
    """Look at a class again: cloudpickle makes it empty first and gives it its methods afterwards."""
    for base, visit in _visits:
        if issubclass(cls, base):
            visit(cls)


def replace(owner: type | ModuleType, name: str, new: Any) -> None:
    """Put `new` in the place of an attribute, until `restore`."""
    _changed.append((owner, name, vars(owner).get(name, _NOTHING), new))
    setattr(owner, name, new)


def restore() -> None:
    """Undo everything, the last first, but for what others have replaced since."""
    while _changed:
        owner, name, before, ours = _changed.pop()
        if vars(owner).get(name) is not ours:
            continue
        if before is _NOTHING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
    _visits.clear()


def begin_iteration() -> None:
    """An iteration begins where no method can be instrumented with `iteration=True`."""
    _recorder.Span(lambda: None, None, iteration=True)()


def rewards(environment: Any, result: Any) -> int:
    """For `steps=`: environments that were stepped, one reward for each; (observation, reward, …) or a dm_env.TimeStep."""
    return len(result[1])


def trains(optimizer: Any, nothing: Any) -> None:
    """For `on_exit=`: an optimizer was made, so this process trains, and its iterations end with updates."""
    _recorder.expect_updates()
