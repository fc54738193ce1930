"""Two of the study's figures from our priors, the published points beside them: SVG files for docs/balance.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from cutaway.balance.model import predict
from cutaway.balance.page import HEIGHT, WIDTH, Series, draw
from studies.architecture import priors

ACTORS = (4, 40, 80, 120, 160, 208, 256)
SMS = (2, 10, 20, 40, 60, 80)
STYLE = "text{font:11px system-ui,sans-serif;fill:#1a1c20}.axis{stroke:#d9dce1}"


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

    _save(
        folder / "study-actors.svg",
        "actors",
        "speed-up over 4 actors",
        [ours(faster), published((4, 1), (40, 5.8), (256, 11.6))],
    )
    _save(
        folder / "study-sms.svg",
        "SMs",
        "slowdown at 256 actors",
        [ours(slower), published((40, 1.06), (80, 1))],
    )


def _save(path: Path, x: str, y: str, series: list[Series]) -> None:
    opened = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
    )
    drawn = draw(x, y, series).replace("<svg ", opened, 1)
    head, rest = drawn.split(">", 1)
    path.write_text(
        f'{head}><style>{STYLE}</style><rect width="100%" height="100%" fill="#ffffff"/>{rest}\n'
    )
