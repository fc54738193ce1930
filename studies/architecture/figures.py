"""Two of the study's figures from our priors, the published points beside them: SVG files for docs/balance.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from cutaway.drawing.charts import Series, lines
from cutaway.drawing.files import write as write_file
from cutaway_balance.model import predict
from studies.architecture import priors

ACTORS = (4, 40, 80, 120, 160, 208, 256)
SMS = (2, 10, 20, 40, 60, 80)


def write(
    folder: Path,
    samples: Iterable[int],
    quantile: Callable[[list[float], float], float],
) -> None:
    """study-actors.svg and study-sms.svg in `folder`."""
    faster: dict[int, list[float]] = {n: [] for n in ACTORS}
    slower: dict[int, list[float]] = {s: [] for s in SMS}
    for seed in samples:
        p = priors.sample(seed)
        machine = priors.machine(p)
        rates = {
            n: predict(priors.workload(p), machine, n, draws=0).steps_per_s
            for n in ACTORS
        }
        for n in ACTORS:
            faster[n].append(rates[n] / rates[ACTORS[0]])
        for s in SMS:
            rate = predict(
                priors.workload(p, s), machine, ACTORS[-1], draws=0
            ).steps_per_s
            slower[s].append(rates[ACTORS[-1]] / rate)

    def ours(values: dict[int, list[float]]) -> Series:
        return Series(
            "priors only",
            [
                (float(x), *(quantile(v, q) for q in (0.5, 0.025, 0.975)))
                for x, v in values.items()
            ],  # type: ignore[misc]
        )

    def published(*points: tuple[float, float]) -> Series:
        return Series("published", [(x, y, y, y) for x, y in points])

    actors = [ours(faster), published((4, 1), (40, 5.8), (256, 11.6))]
    sms = [ours(slower), published((40, 1.06), (80, 1))]
    drawn = lines("actors", "speed-up over 4 actors", actors)
    write_file(folder / "study-actors.svg", drawn)
    write_file(folder / "study-sms.svg", lines("SMs", "slowdown at 256 actors", sms))
