"""Balance is a package of its own: a verb when it is installed, a sentence when it is not."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

from cutaway import __version__, commands

pytestmark = pytest.mark.core


def test_its_verb_is_there_and_comes_after_those_of_the_core() -> None:
    assert commands.verbs_apart()["balance"] == "cutaway_balance.command"
    assert "balance" not in commands.VERBS
    text = commands.build_parser([]).format_help()
    assert text.index("    agent") < text.index("    balance")


def test_where_it_is_not_installed_one_sentence_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "verbs_apart", dict)
    assert commands.main(["balance", "advise", "pong"]) == 1
    said = capsys.readouterr().err
    assert "pip install cutaway-balance" in said and said.count("\n") == 1
    assert "balance" not in commands.build_parser([]).format_help()


def test_other_verbs_do_not_look_for_packages() -> None:
    """Reading what is installed takes longer than all that `cutaway run` needs."""
    code = (
        "import sys; from cutaway.commands import build_parser; build_parser(['run']); "
        "print('importlib.metadata' in sys.modules, 'cutaway_balance' in sys.modules)"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert said == "False False\n"


def test_it_asks_for_the_core_of_its_own_version() -> None:
    assert metadata.version("cutaway-balance") == __version__
    needed = metadata.requires("cutaway-balance")
    assert needed is not None and f"cutaway=={__version__}" in needed
