"""Opens a foreign file: tells its format by its content and hands out its bytes, unpacked, a chunk at a time.

Limits are checked while reading: a small file that unpacks to terabytes costs a second, not the machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cutaway.errors import CutawayError

CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
_SQLITE = b"SQLite format 3\0"

Progress = Callable[[int], None]  # called with the number of bytes of the file that have been read


@dataclass(frozen=True)
class Limits:
    """What a file may cost before it is refused. Raise a limit only for files you trust."""

    ratio: int = 200  # unpacked size over packed size; JSON traces reach about 40
    size: int = 64 << 30  # unpacked bytes
    events: int = 20_000_000  # each costs about 350 bytes of memory
    names: int = 256 << 20  # bytes of distinct names
    depth: int = 64  # nesting of a JSON document


def read_chunks(path: Path, limits: Limits, progress: Progress) -> Iterator[bytes]:
    """The content of a file, unpacked if it is gzip."""
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            packed = iter(lambda: file.read(CHUNK // 4), b"")
            if head == _GZIP:
                yield from _unpack(path, packed, limits, progress)
            else:
                yield from _plain(path, packed, limits, progress)
    except OSError as error:
        raise CutawayError(f"{path} cannot be read: {error.strerror or error}.") from None


def _plain(path: Path, parts: Iterator[bytes], limits: Limits, progress: Progress) -> Iterator[bytes]:
    read = 0
    for part in parts:
        read += len(part)
        _check_size(path, read, limits)
        yield part
        progress(read)


def _unpack(path: Path, parts: Iterator[bytes], limits: Limits, progress: Progress) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=31)
    read = written = 0
    whole = True
    try:
        for part in parts:
            read += len(part)
            while part:
                out = stream.decompress(part, CHUNK)
                written += len(out)
                _check_size(path, written, limits)
                if written > 64 * CHUNK and written > read * limits.ratio:
                    raise CutawayError(
                        f"{path} unpacks to more than {limits.ratio} times its size; "
                        "if you trust it, raise --max-ratio."
                    )
                yield out
                part = stream.unconsumed_tail
                whole = stream.eof
                if stream.eof:  # a gzip file may consist of several members
                    part = stream.unused_data.lstrip(b"\0")
                    stream = zlib.decompressobj(wbits=31)
            progress(read)
    except zlib.error:
        raise CutawayError(f"{path} is damaged: its gzip data cannot be unpacked; copy it again.") from None
    if not whole:
        raise CutawayError(f"{path} is cut off: its gzip data ends early; copy it again.")


def _check_size(path: Path, size: int, limits: Limits) -> None:
    if size > limits.size:
        raise CutawayError(
            f"{path} is larger than {limits.size >> 20} MB; if you trust it, raise --max-size."
        )


def detect(path: Path) -> str:
    """The format of a file: "kineto", "rocprof", "nsys" or "xplane", by its content, never by its name."""
    head = _head(path)
    if head.startswith(_SQLITE):
        return "nsys"
    text = head.lstrip(b" \t\r\n\xef\xbb\xbf")
    if text[:1] in (b"{", b"["):
        return "rocprof" if b'"rocprofiler-sdk-tool"' in text[:4096] else "kineto"
    # XSpace: field 1 (plane), length-delimited, or 2–4 for errors, warnings and host names.
    if head[:1] in (b"\x0a", b"\x12", b"\x1a", b"\x22"):
        return "xplane"
    raise CutawayError(
        f"{path} is not a trace Cutaway can import; use a PyTorch profiler JSON, an Nsight Systems SQLite "
        "export, an XPlane .pb or a rocprofv3 JSON."
    )


def _head(path: Path) -> bytes:
    if path.is_dir():
        raise CutawayError(f"{path} is a folder; name the trace files in it.")
    head = b""
    for chunk in read_chunks(path, Limits(), lambda read: None):
        head += chunk
        if len(head) >= 4096:
            break
    if not head:
        raise CutawayError(f"{path} is empty; there is nothing to import.")
    return head


def total_size(paths: list[Path]) -> int:
    """Bytes of all files together, for a progress bar."""
    return sum(p.stat().st_size for p in paths if p.is_file())
