"""The skill: installed where agents look, and everything it tells them to run exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cutaway.agents.install import PLACES, skill
from cutaway.commands import VERBS, build_parser, main
from cutaway.reports.rules import RULES

pytestmark = pytest.mark.core


def test_it_begins_as_agents_want_it() -> None:
    head = re.match(r"---\nname: cutaway\ndescription: (.+)\n---\n", skill())
    assert head and len(head[1]) < 1024 and len(skill().splitlines()) < 120


@pytest.mark.parametrize("agent", sorted(PLACES))
def test_it_is_installed_in_the_project(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["agent", "install", "--for", agent]) == 0
    assert (tmp_path / PLACES[agent] / "cutaway" / "SKILL.md").read_text(
        encoding="utf-8"
    ) == skill()


def test_for_the_user_and_an_edited_one_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (
        main(["agent", "install", "--user"]) == 0
        and main(["agent", "install", "--user"]) == 0
    )
    file = tmp_path / ".claude/skills/cutaway/SKILL.md"
    file.write_text("mine")
    assert (
        main(["agent", "install", "--user"]) == 1
        and "--force" in capsys.readouterr().err
    )
    assert file.read_text() == "mine"
    assert (
        main(["agent", "install", "--user", "--force"]) == 0
        and file.read_text() == skill()
    )


def test_its_commands_and_rules_exist() -> None:
    commands = re.findall(r"^    cutaway (.+)$", skill(), re.M)
    assert len(commands) >= 6
    for command in commands:
        words = command.partition("#")[0].split()
        assert words[0] in VERBS
        if "|" not in command and '"' not in command:
            build_parser(words).parse_args(words)
    named = set(re.findall(r"`(?:rule: )?([a-z]+-[a-z-]+)`", skill())) & {
        rule.name for rule in RULES
    }
    assert {"thin-time", "thin-failed", "thin-operations", "one-jitted-call"} <= named
