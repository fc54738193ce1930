"""What holds for every test: no failure by chance, and none because the machine was busy."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from effort import effort

# Tests of a wheel run where there is one: scripts/test-pythons, scripts/wheels.
collect_ignore = [] if "CUTAWAY_WHEEL" in os.environ else ["packaging"]

# The same examples in every run, no limit on their time, and no folder of examples that two runs at once would share.
settings.register_profile(
    "cutaway",
    max_examples=effort(100, 25),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("cutaway")
