"""Layer native: parts of the standard library that are written in C and work on whole objects: pickle, json, compression, hashes.

A call that takes less than 2 µs stays Python. Reading a pickle from a file is left alone: the file may be a pipe, and waiting is
no work.
"""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record import layers

LAYER = "native"
FUNCTIONS = {
    "_pickle": "dumps loads",
    "zlib": "compress decompress crc32 adler32",
    "binascii": "a2b_base64 b2a_base64 crc32",
    "_hashlib": "openssl_md5 openssl_sha1 openssl_sha256",
}
METHODS = {
    "_pickle": {"Pickler": "dump"},
    "_bz2": {"BZ2Compressor": "compress flush", "BZ2Decompressor": "decompress"},
    "_lzma": {"LZMACompressor": "compress flush", "LZMADecompressor": "decompress"},
    "_hashlib": {"HASH": "update"},
}
CALLED = {"_json": ("make_scanner", "make_encoder")}
"""Types whose instances are called, for a whole text or object at a time."""


def _apply(module: ModuleType) -> None:
    name = module.__name__
    shown = name.removeprefix("_")
    for function in FUNCTIONS.get(name, "").split():
        _record(vars(module).get(function), f"{shown}.{function}")
    for cls, methods in METHODS.get(name, {}).items():
        for method in methods.split():
            _record(_members(module, cls).get(method), f"{shown}.{cls}.{method}")
    for cls in CALLED.get(name, ()):
        if isinstance(made := vars(module).get(cls), type):
            # Debian builds such modules into Python itself.
            _recorder.patch_type(made, f"{shown}.{cls}", LAYER, ("__call__",), True)


def _members(module: ModuleType, cls: str) -> dict[str, object]:
    return dict(vars(vars(module).get(cls, object)))


def _record(function: object, name: str) -> None:
    if function is not None and layers.is_native(function):
        _recorder.patch_wait(layers.native_part(function), name, "", LAYER)


NAMES = sorted({*FUNCTIONS, *METHODS, *CALLED})
MODULES = dict.fromkeys(NAMES, _apply)
