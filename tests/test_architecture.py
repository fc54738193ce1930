"""The maps of the house name every folder."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[1]


def folders(below: str) -> list[str]:
    """Folders that hold files of ours."""
    found = set()
    for path in (ROOT / below).rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            found.add(str(path.parent.relative_to(ROOT)))
    return sorted(found - {below})


def unnamed(page: str, names: list[str]) -> list[str]:
    """The folders that a page does not mention as `…folder/`."""
    text = (ROOT / page).read_text()
    return [name for name in names if f"`{name}/`" not in text]


@pytest.mark.parametrize("below", ["src/cutaway", "packages", "native"])
def test_the_architecture_names_every_folder(below: str):
    found = folders(below)
    assert found
    assert unnamed("docs/architecture.md", found) == []


def test_the_readme_of_the_native_part_names_every_folder():
    found = [name.removeprefix("native/") for name in folders("native")]
    assert unnamed("native/README.md", found) == []
