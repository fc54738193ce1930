"""Do our pages pass axe-core, in a real Chromium, in light and dark, with everything unfolded?

    python -m benchmarks.accessibility PAGE.html …

axe-core comes from PyPI, in a package that brings it along; it is fetched once, into build/. Ends with 1 if a rule is violated.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from benchmarks.browser import READY, Browser

PACKAGE = "axe-playwright-python==0.1.8"  # axe-core 4.12.1
SCRIPT = "axe_playwright_python/axe.min.js"
KEPT = Path(__file__).parents[1] / "build" / "axe"
RUN = """axe.run({ resultTypes: ["violations"] }).then((found) => found.violations.map((one) =>
    `${one.impact} ${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`))"""


def axe() -> str:
    """The source of axe-core. Of the package only this file is used, so nothing is installed."""
    kept = KEPT / f"{PACKAGE}.js"
    if not kept.is_file():
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(_fetched(), encoding="utf-8")
    return kept.read_text(encoding="utf-8")


def _fetched() -> str:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        subprocess.run([*pip, "--dest", folder, PACKAGE], check=True, timeout=300)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            return packed.read(SCRIPT).decode()


def violations(browser: Browser, page: Path, source: str, dark: bool) -> list[str]:
    """What axe-core has against a page."""
    browser.open(page)
    browser.dark(dark)
    browser.run("document.querySelector('nav button')?.click()")
    browser.wait(READY)
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
