"""skrl, on torch, JAX and Warp alike. `eval` of a trainer is evaluation."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule


def _on_backends(template: str) -> str:
    return " ".join(template.format(backend) for backend in ("torch", "jax", "warp"))


RULES: list[Rule] = []
MEMORY_CALLS = "add_samples sample sample_by_index sample_all"
for agent in (
    (_on_backends("skrl.agents.{}.base"), "Agent+"),
    (_on_backends("skrl.multi_agents.{}.base"), "MultiAgent+"),
):
    RULES += [
        Rule(
            *agent,
            inference="act",
            replay="record_transition",
            checkpoint="write_checkpoint",
        ),
        Rule(*agent, backpropagation="update", update=True),
    ]
for wrapper in ("Wrapper+", "MultiAgentEnvWrapper+"):
    WRAPPERS = _on_backends("skrl.envs.wrappers.{}.base")
    RULES += [
        Rule(WRAPPERS, wrapper, simulation="step", steps="num_envs"),
        Rule(WRAPPERS, wrapper, simulation="reset state"),
    ]
RULES += [
    Rule(_on_backends("skrl.memories.{}.base"), "Memory+", replay=MEMORY_CALLS),
    Rule(_on_backends("skrl.trainers.{}.base"), "Trainer+", evaluation="eval"),
]

CARD = Card(
    "skrl",
    version="2.1",
    rules=RULES,
    loop="skrl",
    settings=[
        Settings(
            workers='use gymnasium.make_vec(..., num_envs={n}, vectorization_mode="async")',
            fewer="num_envs={n}",
            one_process='vectorization_mode="sync"',
            inference="raise num_envs, so that one forward pass serves more environments",
            update="lower mini_batches or learning_epochs",
            passes="lower learning_epochs",
            rarer="lower gradient_steps",
        )
    ],
)
