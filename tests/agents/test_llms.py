"""`scripts/llms`: the documentation as agents read it. It reads mkdocs.yml with PyYAML, which the core tests do without."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_llms_txt_names_every_page(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "llms"), str(tmp_path)],
        check=True,
        timeout=60,
    )
    contents = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", contents)
    assert (
        contents.startswith("# Cutaway\n\n> ")
        and [link for link in links if not (tmp_path / link).is_file()] == []
    )
    nav = set(
        re.findall(r"([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    )
    assert nav <= set(links)
