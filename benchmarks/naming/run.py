"""Running a program of `programs/` under the recorder, in the environment that has its packages."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.naming.compare import Result, read, read_reference

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 600


@dataclass(frozen=True)
class Program:
    """What a program's file says about itself, by constants at its top."""

    name: str
    framework: str
    environment: str = ""
    """Empty: .venv has all it needs. Else it runs in .venv-ENVIRONMENT, which scripts/ENVIRONMENT-environment makes."""
    launcher: tuple[str, ...] = ()
    """What stands between Python and the script, such as ("-m", "torch.distributed.run")."""

    @property
    def python(self) -> Path:
        if not self.environment:
            return Path(sys.executable)
        return ROOT / f".venv-{self.environment}" / "bin" / "python"

    @property
    def title(self) -> str:
        return f"{self.name} ({self.framework})"


def programs(names: list[str]) -> list[Program]:
    """The programs of these names, or all."""
    known = {
        path.stem: path
        for path in sorted(PROGRAMS.glob("*.py"))
        if path.stem != "__init__"
    }
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(
            f"there is no program {', '.join(unknown)}; choose from {', '.join(known)}"
        )
    return [_described(known[name]) for name in names or known]


def _described(path: Path) -> Program:
    said = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("FRAMEWORK", "ENVIRONMENT", "LAUNCHER"):
                said[name.lower()] = ast.literal_eval(node.value)
    return Program(path.stem, **said)


def measure(
    program: Program, reference: bool = True, keep: Path | None = None
) -> Result:
    """Run a program with the truth beside what is found, and once more with detection off. Recordings kept earlier are used again."""
    if not program.python.exists():
        return Result(
            program.name,
            program.framework,
            [],
            error=f"run scripts/{program.environment}-environment",
        )
    with tempfile.TemporaryDirectory(prefix="naming-") as scratch:
        folder = (keep or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        joint, truth = (
            folder / f"{program.name}-{kind}.cutaway" for kind in ("automatic", "truth")
        )
        error = "" if joint.exists() else _record(program, joint, "phases", "auto=1")
        if reference and not error and not truth.exists():
            error = _record(program, truth, "operations", "auto=0")
        if error:
            return Result(program.name, program.framework, [], error=error)
        shares = read_reference(truth) if reference else {}
        return Result(program.name, program.framework, read(joint), shares)


def _record(program: Program, folder: Path, truth: str, detection: str) -> str:
    """Empty, or why the program failed; a failed recording is not kept."""
    environment = {
        **os.environ,
        "CUTAWAY": f"{folder}?{detection}&calibrate_share=0",
        "NAMING_TRUTH": truth,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [
        str(program.python),
        *program.launcher,
        str(PROGRAMS / f"{program.name}.py"),
    ]
    with (
        tempfile.TemporaryDirectory() as scratch
    ):  # frameworks write their logs where they are started
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd=scratch,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            shutil.rmtree(folder, ignore_errors=True)
            return f"not done in {TIMEOUT_S} s"
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        return f"failed: {(done.stderr.strip().splitlines() or ['without a word'])[-1]}"
    return ""
