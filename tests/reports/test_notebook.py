"""`%%cutaway` in a real IPython shell; clickable lines in a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import cutaway

from .runs import single

CELL = """%%cutaway one.cutaway
import time
for i in range(6):
    cutaway.iteration()
    with cutaway.operation("simulation"):
        time.sleep(0.05)
answer = 42
"""


def test_a_cell_shows_its_verdict_and_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell.instance()
    shell.run_cell("%load_ext cutaway\nimport cutaway")
    with capture_output() as shown:
        shell.run_cell(CELL)
    assert shell.user_ns["answer"] == 42
    assert "verdict" in shown.stdout and "simulation" in shown.stdout
    page = shown.outputs[0].data["text/html"]
    assert page.startswith("<iframe") and "Content-Security-Policy" in page
    assert "</iframe>" not in page[:-9], "the page cannot leave its frame"
    assert cutaway.open(tmp_path / "one.cutaway").iterations()


def test_an_error_in_a_cell_leaves_what_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell.instance()
    shell.run_cell("%load_ext cutaway\nimport cutaway")
    with capture_output() as shown:
        shell.run_cell("%%cutaway two.cutaway\nraise ValueError('mine')")
    assert "mine" in shown.stdout and (tmp_path / "two.cutaway").is_dir()


def printed(path: Path, **environment: str) -> str:
    """What `show --by callsite` writes into a terminal with this environment."""
    keep = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "cutaway", "show", str(path), "--by", "callsite"]
    process = subprocess.Popen(
        command, stdout=theirs, env={**keep, "LANG": "C.UTF-8", **environment}
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    assert process.wait(60) == 0
    return b"".join(parts).decode()


def test_lines_are_links_where_a_terminal_can_show_them(tmp_path: Path) -> None:
    path = single(tmp_path / "r.cutaway")
    linked = printed(path, TERM="xterm-kitty")
    assert "\x1b]8;" in linked and "/data/train.py#70" in linked
    for environment in ({"TERM": "linux"}, {"TERM": "xterm-kitty", "TMUX": "x"}):
        assert "\x1b]8;" not in printed(path, **environment)
    command = [sys.executable, "-m", "cutaway", "show", str(path), "--by", "callsite"]
    piped = subprocess.run(
        command,
        capture_output=True,
        check=True,
        env={**os.environ, "TERM": "xterm-kitty"},
    )
    assert b"\x1b" not in piped.stdout
