"""Checks our collector against CUPTIs from PyPI (needs a network): python tests/devices/check_cuptis.py

For the oldest 12.x wheel and the newest 12.x and 13.x: our sources, with every assertion about layouts, compile against the headers in the
wheel; and on a machine without a driver the library in it ends in one sentence.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEELS = (
    "nvidia-cuda-cupti-cu12==12.0.90",
    "nvidia-cuda-cupti-cu12",
    "nvidia-cuda-cupti",
)
BEGIN = "import json, sys; from cutaway.record.devices import cupti; print(json.dumps(cupti.begin(sys.argv[1])))"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        return max(check(Path(folder) / name, name) for name in WHEELS)


def check(folder: Path, wheel: str) -> int:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "-d",
        str(folder),
        wheel,
    ]
    subprocess.run(command, check=True)
    (archive,) = folder.glob("*.whl")
    zipfile.ZipFile(archive).extractall(folder)
    (headers,) = [path.parent for path in folder.rglob("cupti_activity.h")]
    (library,) = folder.rglob("libcupti.so.1*")
    header = [
        sys.executable,
        str(ROOT / "native/vocabulary_header.py"),
        str(folder / "trace/vocabulary.h"),
    ]
    subprocess.run(header, check=True)
    failed = 0
    for source in ("decode", "collector", "library"):
        failed |= compiles(ROOT / f"native/devices/cupti/{source}.cpp", headers, folder)
    done = subprocess.run(
        [sys.executable, "-c", BEGIN, str(library)], capture_output=True, text=True
    )
    code, sentence = (
        json.loads(done.stdout)
        if done.returncode == 0
        else (done.returncode, "it crashed")
    )
    print(
        f"{archive.name}: headers {'differ' if failed else 'agree'}; without a driver: {code}, {sentence!r}"
    )
    return int(failed or done.returncode != 0)


def compiles(source: Path, headers: Path, generated: Path) -> int:
    includes = [
        "-I",
        str(ROOT / "native"),
        "-I",
        str(generated),
        "-isystem",
        str(headers),
        "-isystem",
        "/usr/local/cuda/include",
    ]
    return subprocess.run(
        ["c++", "-std=c++17", "-fsyntax-only", *includes, str(source)]
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
