"""Builds the CUPTI double against the headers that are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HEADERS = "tests of the CUPTI collector need cupti.h: `make setup` installs it"
CBID = re.compile(r"CUPTI_(?:RUNTIME|DRIVER)_TRACE_CBID_(\w+)\s*=\s*(\d+)")


def includes() -> list[Path]:
    """Folders with cupti.h and cuda.h, from the wheels or a toolkit."""
    roots = [
        root for folder in sys.path for root in Path(folder).glob("nvidia/cu*/include")
    ]
    roots += sorted(Path("/usr/local").glob("cuda*/include"))
    found = [
        root
        for root in roots
        if any((root / name).exists() for name in ("cupti.h", "cuda.h"))
    ]
    assert any((root / "cupti.h").exists() for root in found), HEADERS
    return list(dict.fromkeys(found))


def call_names(header: str) -> dict[str, int]:
    """Number of each call, `cudaLaunchKernel_v7000` for instance, from cupti_runtime_cbid.h or cupti_driver_cbid.h."""
    (path, *_) = [
        folder / header for folder in includes() if (folder / header).exists()
    ]
    return {
        name: int(number)
        for name, number in CBID.findall(path.read_text())
        if name != "INVALID"
    }


def build(out: Path, soname: str = "libcupti.so.12") -> Path:
    """Compile the double as `out`."""
    generated = out.parent / f"{out.name}.names"
    generated.mkdir(exist_ok=True)
    for kind in ("runtime", "driver"):
        rows = [
            f'{{{n}, "{name}"}},'
            for name, n in call_names(f"cupti_{kind}_cbid.h").items()
        ]
        (generated / f"{kind}_names.h").write_text("\n".join(rows))
    options = [word for folder in includes() for word in ("-isystem", str(folder))]
    flags = [
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        *options,
        "-I",
        str(generated),
    ]
    sources = sorted(map(str, (HERE / "cupti_double").glob("*.c*")))
    link = ["-o", str(out), f"-Wl,-soname,{soname}", "-lpthread"]
    subprocess.run(["cc", *flags, *sources, *link], check=True)
    return out
