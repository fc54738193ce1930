"""What one multiprocessor of an NVIDIA GPU holds at once: the limits of NVIDIA's programming guide, by compute capability."""

from __future__ import annotations

from typing import NamedTuple


class Multiprocessor(NamedTuple):
    """What one multiprocessor (SM) of a compute capability can hold at once; `shared_reserved` bytes the system takes from
    every block."""

    threads: int
    blocks: int
    shared_bytes: int
    shared_unit: int
    shared_reserved: int


LIMITS = {
    (6, 0): Multiprocessor(2048, 32, 64 << 10, 256, 0),
    (6, 1): Multiprocessor(2048, 32, 96 << 10, 256, 0),
    (7, 0): Multiprocessor(2048, 32, 96 << 10, 256, 0),
    (7, 5): Multiprocessor(1024, 16, 64 << 10, 256, 0),
    (8, 0): Multiprocessor(2048, 32, 164 << 10, 128, 1024),
    (8, 6): Multiprocessor(1536, 16, 100 << 10, 128, 1024),
    (8, 7): Multiprocessor(1536, 16, 164 << 10, 128, 1024),
    (8, 9): Multiprocessor(1536, 24, 100 << 10, 128, 1024),
    (9, 0): Multiprocessor(2048, 32, 228 << 10, 128, 1024),
    (10, 0): Multiprocessor(2048, 32, 228 << 10, 128, 1024),
    (10, 3): Multiprocessor(2048, 32, 228 << 10, 128, 1024),
    (12, 0): Multiprocessor(1536, 24, 100 << 10, 128, 1024),
}


def multiprocessor(major: int, minor: int) -> Multiprocessor | None:
    """The limits of a compute capability; a newer minor is taken for the nearest older one of its generation."""
    known = [(a, b) for a, b in LIMITS if a == major and b <= minor]
    if known:
        return LIMITS[max(known)]
    return None
