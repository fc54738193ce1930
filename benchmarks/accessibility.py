"""Do our pages pass axe-core, in a real Chromium, in light and dark, with everything unfolded?

    python -m benchmarks.accessibility PAGE.html …

Needs npm and a network, to fetch axe-core. Ends with 1 if a rule is violated.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.browser import Browser

RUN = """axe.run({ resultTypes: ["violations"] }).then((found) => found.violations.map((one) =>
    `${one.impact} ${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`))"""


def axe() -> str:
    """The source of axe-core."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "install", "--silent", "--prefix", folder, "axe-core"]
        subprocess.run(command, check=True, timeout=300)
        return Path(folder, "node_modules/axe-core/axe.min.js").read_text()


def violations(browser: Browser, page: Path, source: str, dark: bool) -> list[str]:
    """What axe-core has against a page."""
    browser.open(page)
    browser.dark(dark)
    browser.run("document.querySelector('nav button')?.click()")
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    browser.settle()
    browser.run(source)
    return list(browser.run(RUN))


def main() -> int:
    source, failed = axe(), 0
    with Browser() as browser:
        for page in map(Path, sys.argv[1:]):
            for dark in (False, True):
                found = violations(browser, page, source, dark)
                failed += len(found)
                kind = "dark" if dark else "light"
                print(f"{page.name}, {kind}:", *(found or ["clean"]), sep="\n  ")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
