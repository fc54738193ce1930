"""A real Chromium for the tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks import browser as chromium
from benchmarks.browser import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chromium, "PATIENCE_S", 300.0)  # however busy the machine is
        with Browser() as one:
            yield one
