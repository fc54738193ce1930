"""TensorBoardX: what it writes is no operation of the training, and has no name."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.hooks import Rule

CARD = Card(
    "TensorBoardX",
    version="2.6",
    rules=[
        Rule(
            "tensorboardX.writer",
            "SummaryWriter",
            "add_scalar add_scalars add_histogram add_text add_image add_video flush",
            mark="log",
        )
    ],
)
