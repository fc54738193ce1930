"""prime-rl: the trainer, and the policy version that its orchestrator samples with. Read at the head of August 2026; no training was
run here.

Its engine is vLLM, which has a card of its own.
"""

from __future__ import annotations

from cutaway.record import gauges
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule
from cutaway.record.imports import Any

DATA = "prime_rl.trainer.rl.data"


def _version(watcher: Any, nothing: Any) -> None:
    gauges.gauge("policy version", watcher.policy.version)


CARD = Card(
    "prime-rl",
    rules=[
        # The trainer waits for each batch once.
        Rule(DATA, "DataLoader", replay="wait_for_batch", iteration=True),
        Rule(DATA, "DataLoader", replay="get_batch"),
        Rule("prime_rl.trainer.model", "", backpropagation="forward"),
        Rule("prime_rl.trainer.rl.loss", "", backpropagation="compute_loss"),
        Rule("prime_rl.trainer.utils", "", backpropagation="clip_grad_norm_"),
        Rule("prime_rl.trainer.ckpt", "CheckpointManager", checkpoint="save"),
        Rule(
            "prime_rl.transports.weights.base",
            "WeightBroadcast+",
            sync="broadcast_weights",
        ),
        Rule(
            "prime_rl.orchestrator.watcher",
            "WeightWatcher",
            "gauges",
            on_exit=_version,
        ),
    ],
    settings=[
        Settings(
            idle_rollout="raise concurrency.max_inflight, or give the trainer more GPUs",
            fresher="lower max_off_policy_steps",
        )
    ],
)
