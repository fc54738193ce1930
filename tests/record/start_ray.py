"""For programs under test: a Ray of their own, also on a busy machine, where it may not start in its 30 seconds."""

from __future__ import annotations

from typing import Any

import ray

TRIES = 4


def start_ray(**options: Any) -> None:
    for attempt in range(1, TRIES + 1):
        try:
            ray.init(
                "local",
                num_cpus=4,
                include_dashboard=False,
                logging_level="ERROR",
                log_to_driver=False,
                **options,
            )
            return
        except (
            Exception
        ):  # Ray raises nothing more exact when its node has not started in time
            ray.shutdown()
            if attempt == TRIES:
                raise
