"""The native recorder: everything that runs inside the traced process. See native/recorder/."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, final

P = ParamSpec("P")
R = TypeVar("R")

refused: str
"""Why this Python cannot be recorded, in one sentence; then nothing else is in this module. Empty where it can."""
limits: str
"""What is not recorded on this Python, in one sentence: one that is newer than those we know. Empty where all is."""
first_refusal: bool
"""Beside a reason: whether it is the first time in this process, so that somebody should be told."""

@final
class Operation:
    """One operation name; made by `operation`, never freed, shared by all threads."""

    name: str
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool: ...
    def __call__(self, function: Callable[P, R]) -> Callable[P, R]: ...

class Phase:
    """What `phase` returns: leaving it as a context manager brings back the phase before."""

    def __enter__(self) -> Phase: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool: ...

@final
class Span:
    """A function with an operation around each call, which looks like the function itself.

    For framework hooks. The operation is not opened inside one of the same name, inside one that the user opened under
    a built-in name, and in lines that stand directly in a block the user annotated. Inside the automatic operations
    `hidden_in`, or if `unless()` is True, a call does nothing more than the function. Otherwise `on_enter(first_argument)`
    is called before; after a call that did not raise, `steps` (a number, an attribute of the first argument, or what a
    function of that argument and the result returns) are counted and `on_exit(first_argument, result)` is called.
    `iteration`: a call begins an iteration. `update`: a call changes the weights, so that the next call with steps
    begins one. `alone`: a function that simulates, whose first argument is no environment.
    `mark`: an outermost call is a hint for the analysis: of a `network` (`gradients()` tells whether they
    are recorded), a `batch` drawn, a `random` action.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        operation: str | None,
        *,
        hidden_in: Sequence[str] = (),
        steps: int | str | Callable[[Any, Any], int] = 0,
        mark: str | None = None,
        gradients: Callable[[], Any] | None = None,
        unless: Callable[[], Any] | None = None,
        on_enter: Callable[[Any], Any] | None = None,
        on_exit: Callable[[Any, Any], Any] | None = None,
        iteration: bool = False,
        update: bool = False,
        alone: bool = False,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def start(
    folder: str,
    *,
    name: str = "",
    role: str = "",
    program: str = "",
    call_sites: bool = True,
    max_bytes: int = 0,
    sample_hz: float = 10,
    stack_hz: float = 0,
    calibrate_share: float = 0.0,
    after_iterations: int = 0,
    for_iterations: int = 0,
    window_s: float = 0.0,
    keep_s: float = 0.0,
    memory: bool = True,
    extra: str = "",
) -> None:
    """Makes folder/p<pid>-<start>/ and records into it; OSError if that cannot be.

    `max_bytes` counts all processes of the run. `extra` is JSON text put into the log's `process` line, such as
    `"versions":{"torch":"2.0"}`. After a fork the child starts by itself, with the same options, at its first event.
    """

def stop() -> None:
    """Packs everything and closes the files. Nothing happens if nothing records."""

def recording() -> bool:
    """Whether events are written at this moment: started and not paused."""

def active() -> bool:
    """Whether this process is being recorded, perhaps paused; in a forked child, starts it."""

def leave_children(yes: bool) -> None:
    """Whether processes forked from now on are left alone."""

def set_lease(fd: int, on_end: Callable[[], None]) -> None:
    """Calls `on_end` on the main thread as soon as the other end of `fd` is closed or speaks."""

def leave_thread() -> None:
    """What this thread does is not recorded; to be called before it does anything."""

def pause(reason: int = 3) -> None:
    """Stops writing events on all threads: 1 calibration, 2 window, 3 asked for, 4 size limit, 5 disk."""

def resume(reason: int = 3) -> None:
    """Takes the reason back; writing goes on when none is left."""

def hook_memory(wanted: bool, /) -> None:
    """Whether allocations are counted, where the recording samples memory; for benchmarks."""

def folder() -> str | None: ...
def log(kind: str, fields: str = "") -> None:
    """Appends a line to the log; `fields` is a JSON object, with or without its braces."""

def note(text: str) -> None: ...
def switched(event: object, greenlets: tuple[object, object]) -> None: ...
def set_process(name: str | None = None, role: str | None = None) -> None: ...
def thread_name(name: str) -> None: ...
def stats() -> dict[str, int]: ...
def operation(name: str) -> Operation:
    """A named, nestable span of algorithmic work, as context manager or decorator.

    >>> with operation("inference"):
    ...     pass
    """

def phase(name: str | None) -> Phase:
    """Begins a named stretch of the program; as a context manager, until the block is left."""

def iteration() -> None:
    """Marks one pass of the training loop."""

def step(n: int = 1) -> None:
    """Counts environment steps."""

def pack_records(records: bytes) -> bytes: ...
def unpack_records(payload: bytes, count: int) -> bytes: ...
def crc32c(data: bytes) -> int: ...

@final
class TaskRunner:
    """Stands in for asyncio.events.Handle._run; see native/recorder/tasks.cpp."""

    __wrapped__: Callable[..., Any]
    def __init__(self, function: Callable[..., Any], task: type) -> None: ...
    def __call__(self, handle: Any) -> Any: ...

# native/intercept; not there on a Python without a global interpreter lock
def patch(object: Any, name: str, layer: str) -> bool:
    """Records the calls of a native callable or getter in place; False if it is of no kind that can be."""

def patch_type(
    type: type, name: str, layer: str, slots: Any = None, built_in: bool = False
) -> int:
    """Records the native slots of a type, given by their dunder names; how many there were. `built_in`: also those in Python itself."""

def patch_wait(
    object: Any,
    name: str,
    on: str | Callable[[tuple[Any, ...]], str],
    layer: str = "wait",
    feeds: bool = False,
) -> bool:
    """Records a built-in when it takes more than 2 µs. `on` says what is waited for: fd, self, ready, pid, semaphore,
    object, queue or ""; a function is given the arguments after a long wait and tells. `feeds`: it also ends waits of others
    (a write)."""

def gave(queue: object) -> None:
    """This thread has put something into a queue of this process."""

def took(queue: object) -> None:
    """This thread has taken something out of a queue of this process."""

def patch_feed(object: Any, on: str) -> bool:
    """A built-in that ends the waits of others; `on` is semaphore, object or queue. It is not recorded itself."""

def patch_sized(object: Any, name: str, layer: str, least: int) -> bool:
    """As `patch`, for calls that are given an array of 2**least elements or more."""

def patch_arrays(type: type, name: str, layer: str, least: int, slots: Any) -> int:
    """The type of arrays; records subscripts of large ones with arrays."""

def patch_watched(
    object: Any,
    name: str,
    layer: str,
    observer: Callable[[tuple[Any, ...], Any], object],
) -> bool:
    """As `patch`; `observer(arguments, result)` is called after each call."""

def patch_awaited(
    object: Any,
    name: str,
    layer: str,
    observer: Callable[[tuple[Any, ...], Any], object],
) -> bool:
    """As `patch`; `observer(arguments, None)` is called before each call."""

def patch_apply(object: Any, name: str, layer: str) -> bool:
    """As `patch`, for a class method that calls `cls.forward` back."""

def compiled_updates(function: Any) -> bool:
    """Each call of this compiled function changes the weights. None: the one that runs; False if nobody sees that."""

def running_compiled() -> Any:
    """The compiled function that this thread runs; None if nobody sees one."""

def patch_one_of_many(object: Any, name: str, layer: str) -> bool:
    """As `patch`, for objects of which there are many with one native function; they may die."""

def patch_operator(
    object: Any,
    name: str,
    layer: str,
    position: int = 0,
    namer: Callable[[Any], str] | None = None,
) -> bool:
    """As `patch`, for what a library written in Python calls. The site is the first caller outside of every `library`;
    `namer` is given the argument at `position`, text or bytes, and names the call."""

def library(path: str) -> None:
    """Files whose paths begin so are no call sites of operators: their callers are."""

def patch_callback(function: Any) -> bool:
    """A Python function that native code calls is layer python while it runs."""

def restore() -> None:
    """Puts every exchanged pointer back, until recording starts or resumes."""

def interception() -> dict[str, int]:
    """How many locations are exchanged, call sites known, objects refused because all thunks are taken."""

# native/frameworks
def cover_calls(
    cls: type,
    operation: str | None,
    *,
    hidden_in: Sequence[str] = (),
    mark: str | None = None,
    gradients: Callable[[], Any] | None = None,
) -> None:
    """Opens an operation around calls of instances of a class and its subclasses, by the types' call slot."""

def cover_calls_of(cls: type) -> None:
    """The same for one more subclass."""

def uncover_calls() -> None: ...
def watch_classes(
    names: tuple[str, ...], callback: Callable[[type], Any] | None
) -> None:
    """Calls back with each class made by a `class` statement that defines one of these names; None: no longer."""

def change_rule(span: Span, operation: str | None, **options: Any) -> None:
    """Another operation and other options for a span, from its next call on."""

def weight_changes() -> int:
    """How often the weights were changed in this process."""

def on_first_operation(callback: Callable[[int], Any] | None) -> None:
    """Calls back with the id of each built-in operation when a hook first opens it; forgets what was found so far."""

def expect_updates() -> None:
    """This process trains: an iteration begins with the first environment step after an update."""

def begin_operation(name: str) -> None:
    """Opens a built-in operation for a hook that sees beginning and end apart; nested calls count as one."""

def end_operation(name: str) -> None: ...
