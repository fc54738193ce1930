"""What to record, and how it travels: as one environment variable, so that every child process has it too.

    CUTAWAY=/data/pong.cutaway
    CUTAWAY=/data/pong.cutaway?window=30s&call_sites=0&simulator=mysim

Anyone may set it by hand where a launcher cannot be edited; `cutaway run` sets it for you. `OPTIONS` declares every option once: its
default, its word in the variable, its flag on the command line, its help text, and whether the native recorder takes it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VARIABLE = "CUTAWAY"

COLLECTORS = ("auto", "none", "cupti", "opencl", "kineto", "jax")

_UNITS = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
}
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """`30s`, `5m`, `1.5h` or a bare number of seconds."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :] or "s"
    if unit not in _SECONDS:
        raise ValueError(
            f"{text!r} is not a duration; write something like 30s, 5m or 1h"
        )
    return float(number) * _SECONDS[unit]


def size(text: str) -> int:
    """`500MB`, `2GiB` or a bare number of bytes."""
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = text[len(number) :].upper() or "B"
    if unit not in _UNITS:
        raise ValueError(f"{text!r} is not a size; write something like 500MB or 2GB")
    return int(float(number) * _UNITS[unit])


def iterations(text: str) -> int:
    """`100it` or a bare number."""
    return int(text[:-2] if text.endswith("it") else text)


def share(text: str) -> float:
    """A number from 0 to less than 1."""
    if not 0 <= float(text) < 1:
        raise ValueError(
            f"{text} is not a share between 0 and 1; write something like 0.05"
        )
    return float(text)


def rate(text: str) -> float:
    """A number from 0 to 1000."""
    if not 0 <= float(text) <= 1000:
        raise ValueError(
            f"{text} is not a rate between 0 and 1000 per second; write something like 200"
        )
    return float(text)


def collector(text: str) -> str:
    """One of `COLLECTORS`."""
    if text not in COLLECTORS:
        raise ValueError(
            f"there is no collector {text}; use one of {', '.join(COLLECTORS)}"
        )
    return text


def _switch(text: str) -> bool:
    return text not in ("0", "no", "false", "off", "")


def _list(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word)


class Option:
    """One option. `word` names it in the variable, `flag` on the command line; one without a flag is for the variable only.
    `was` is its name in 0.1, which goes on working until 0.3."""

    def __init__(
        self,
        name: str,
        default: Any,
        help: str,
        *,
        read: Callable[[str], Any] = _switch,
        word: str = "",
        flag: str = "",
        example: str = "",
        native: bool = False,
        was: str = "",
    ) -> None:
        self.name = name
        self.default = default
        self.help = help
        self.read = read
        self.word = word or name
        self.flag = flag
        self.example = example
        self.native = native
        self.was = was


OPTIONS = (
    Option("auto", True, "use only your own annotations; do not detect frameworks", flag="--no-auto"),
    Option("layers", True, "record native calls; 0 records operations only"),
    Option("simulators", (), "a native module of yours that simulates; can be repeated",
            read=_list, word="simulator", flag="--simulator", example="MODULE"),
    Option("simulation", (), "a method or function of yours that steps the world; can be repeated",
            read=_list, flag="--simulation", example="MODULE.CLASS.METHOD"),
    Option("window_s", 0.0, "record this long from the first iteration, then only train",
            read=seconds, word="window", flag="--window", example="30s", native=True),
    Option("after_iterations", 0, "start recording after this many iterations",
            read=iterations, word="after", flag="--after", example="100it", native=True),
    Option("for_iterations", 0, "record this many iterations",
            read=iterations, word="for", flag="--for", example="50it", native=True),
    Option("keep_s", 0.0, "keep the last stretch in full and everything before it as exact totals",
            read=seconds, word="keep", flag="--keep", example="60s", native=True),
    Option("max_bytes", 0, "stop recording, not training, at this size on disk",
            read=size, word="max_size", flag="--max-size", example="500MB", native=True),
    Option("stack_hz", 100.0, "samples of Python stacks per second (0: none)",
            read=rate, flag="--stacks", example="HZ", native=True),
    Option("call_sites", True, "do not record which line made a native call",
            flag="--no-call-sites", native=True),
    Option("calibrate_share", 0.03, "share of iterations to skip, to measure the cost of recording",
            read=share, flag="--calibrate-share", example="0.05", native=True),
    Option("memory", False, "sample which lines keep memory", flag="--memory", native=True),
    Option("sample_hz", 10.0, "samples of CPU time and memory per second", read=float, native=True),
    Option("collector", "auto", f"what records the accelerator: {', '.join(COLLECTORS)}",
            read=collector, flag="--collector", example="KIND", was="device"),
    Option("counters_s", 0.0, "sample hardware counters of NVIDIA GPUs this often (CUDA 12.6, permission of the driver)",
            read=seconds, word="counters", flag="--counters", example="1ms"),
    Option("shapes", False, "with --collector kineto: record input shapes of operators too", flag="--shapes"),
    Option("metrics", (), "write figures while it runs: tensorboard=DIR, file=PATH.prom or wandb; can be repeated",
            read=_list, flag="--metrics", example="WHERE"),
    Option("store_arguments", False, "store the values of the program's arguments in the run",
            flag="--store-arguments", was="keep_arguments"),
    Option("local", "", "each host records in this local folder; empty: only if the run's folder is on a network",
            read=str),
    Option("mover", True, "move local recordings into the run's folder; 0: you run `cutaway gather`"),
)  # fmt: skip
BY_WORD = {option.name: option for option in OPTIONS}
BY_WORD.update({option.word: option for option in OPTIONS})
BY_WORD.update({option.was: option for option in OPTIONS if option.was})


class Options:
    """What one run records; the defaults of `OPTIONS` are right for almost every run.

    Neither a dataclass nor a named tuple: importing what makes those would take a third of the time it takes to start.
    """

    folder: str
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, folder: str, **chosen: Any) -> None:
        self.folder = folder
        for option in OPTIONS:
            before = chosen.pop(option.was, option.default)
            setattr(self, option.name, chosen.pop(option.name, before))
        if chosen:
            raise TypeError(f"there is no recording option {next(iter(chosen))!r}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and vars(self) == vars(other)

    def to_text(self) -> str:
        """The value of the environment variable: only what differs from the defaults is said."""
        words: list[str] = []
        for option in OPTIONS:
            value = getattr(self, option.name)
            if value != option.default:
                if isinstance(value, bool):
                    plain = int(value)
                else:
                    plain = value
                if isinstance(value, tuple):
                    text = ",".join(value)
                else:
                    text = str(plain)
                words.append(f"{option.name}={_escape(text)}")
        return _escape(self.folder) + ("?" + "&".join(words) if words else "")

    @classmethod
    def from_text(cls, text: str) -> Options:
        """Read the environment variable; words it does not understand are ignored, never an error."""
        folder, _, query = text.partition("?")
        values: dict[str, Any] = {}
        for item in query.split("&"):
            word, _, value = item.partition("=")
            if word in BY_WORD:
                try:
                    values[BY_WORD[word].name] = BY_WORD[word].read(_unescape(value))
                except ValueError:
                    continue
        return cls(os.path.abspath(_unescape(folder)), **values)


def _escape(text: str) -> str:
    for character in "%?&":
        text = text.replace(character, f"%{ord(character):02x}")
    return text


def _unescape(text: str) -> str:
    for character in "&?%":
        text = text.replace(f"%{ord(character):02x}", character)
    return text
