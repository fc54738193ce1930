"""What to record, and how it travels: as one environment variable, so that every child process has it too.

    CUTAWAY=/data/pong.cutaway
    CUTAWAY=/data/pong.cutaway?window=30&call_sites=0&simulator=mysim

Anyone may set it by hand where a launcher cannot be edited; `cutaway run` sets it for you.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "CUTAWAY"

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


class Options:
    """What one run records. The defaults are right for almost every run.

    Neither a dataclass nor a named tuple: importing what makes those would take a third of the time it takes to start.

    auto              find operations, iterations and steps in known frameworks; off: only your own annotations
    layers            intercept native calls; without it only operations are timed
    simulators        further native modules that belong to the layer `simulator`
    window_s          record for so many seconds and then only train; 0 records all
    after_iterations  begin with the iteration after this many: past the start-up, when the run has found its pace
    max_bytes         stop recording (not training) when the run's folder has this size; 0 for no limit
    stack_hz          how often a second to sample the Python stack of each recorded thread; 0 for never
    calibrate_share   share of iterations left unrecorded to measure what recording costs in this very run
    shapes            input shapes of operators, where device work is taken from torch.profiler; costs the program more
    local             record on the disk of each host below this folder; empty: only if the run's folder is on a network
    mover             move what was recorded locally into the run's folder; off: `cutaway gather` does
    keep_arguments    keep the values of the program's arguments in the run, which may hold passwords; else only their names
    """

    def __init__(
        self,
        folder: str,
        auto: bool = True,
        layers: bool = True,
        simulators: tuple[str, ...] = (),
        window_s: float = 0.0,
        after_iterations: int = 0,
        for_iterations: int = 0,
        max_bytes: int = 0,
        call_sites: bool = True,
        calibrate_share: float = 0.03,
        sample_hz: float = 10.0,
        stack_hz: float = 200.0,
        device: str = "auto",
        shapes: bool = False,
        keep_arguments: bool = False,
        local: str = "",
        mover: bool = True,
    ) -> None:
        self.folder = folder
        self.auto = auto
        self.layers = layers
        self.simulators = simulators
        self.window_s = window_s
        self.after_iterations = after_iterations
        self.for_iterations = for_iterations
        self.max_bytes = max_bytes
        self.call_sites = call_sites
        self.calibrate_share = calibrate_share
        self.sample_hz = sample_hz
        self.stack_hz = stack_hz
        self.device = device
        self.shapes = shapes
        self.keep_arguments = keep_arguments
        self.local = local
        self.mover = mover

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def to_text(self) -> str:
        """The value of the environment variable: only what differs from the defaults is said."""
        default = Options("")
        said = [(k, v) for k, v in vars(self).items() if k != "folder" and v != getattr(default, k)]
        query = "&".join(f"{k}={_escape(_to_word(v))}" for k, v in said)
        return _escape(self.folder) + ("?" + query if query else "")

    @classmethod
    def from_text(cls, text: str) -> Options:
        """Read the environment variable; words that are not understood are left out, never an error."""
        folder, _, query = text.partition("?")
        kinds = {key: type(value).__name__ for key, value in vars(cls("")).items()}
        del kinds["folder"]
        values: dict[str, Any] = {}
        for item in query.split("&"):
            key, _, word = item.partition("=")
            key = {"window": "window_s", "simulator": "simulators", "for": "for_iterations"}.get(key, key)
            key = {"after": "after_iterations", "max_size": "max_bytes"}.get(key, key)
            if key in kinds:
                try:
                    values[key] = _from_word(kinds[key], key, _unescape(word))
                except ValueError:
                    continue
        return cls(os.path.abspath(_unescape(folder)), **values)


def seconds(text: str) -> float:
    """`30s`, `5m`, `1.5h` or a bare number of seconds."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :] or "s"
    if unit not in _SECONDS:
        raise ValueError(f"{text!r} is no length of time; write it like 30s, 5m or 1h")
    return float(number) * _SECONDS[unit]


def size(text: str) -> int:
    """`500MB`, `2GiB` or a bare number of bytes."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(number) :].upper() or "B"
    if unit not in _UNITS:
        raise ValueError(f"{text!r} is no size; write it like 500MB or 2GB")
    return int(float(number) * _UNITS[unit])


def iterations(text: str) -> int:
    """`100it` or a bare number."""
    return int(text[:-2] if text.endswith("it") else text)


def _to_word(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _from_word(kind: str, key: str, word: str) -> Any:
    if kind == "bool":
        return word not in ("0", "no", "false", "off", "")
    if kind == "int":
        return size(word) if key == "max_bytes" else iterations(word)
    if kind == "float":
        return seconds(word) if key == "window_s" else float(word)
    if kind == "str":
        return word
    return tuple(w for w in word.split(",") if w)


def _escape(text: str) -> str:
    for character in "%?&":
        text = text.replace(character, f"%{ord(character):02x}")
    return text


def _unescape(text: str) -> str:
    for character in "&?%":
        text = text.replace(f"%{ord(character):02x}", character)
    return text
