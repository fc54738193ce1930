"""skrl, on torch, JAX and Warp alike: agents, memories, environment wrappers; `eval` of a trainer is evaluation."""

from __future__ import annotations

from cutaway.record.frameworks.cover import Rule


def _modules(template: str) -> str:
    return " ".join(template.format(backend) for backend in ("torch", "jax", "warp"))


AGENTS = (
    (_modules("skrl.agents.{}.base"), "Agent+"),
    (_modules("skrl.multi_agents.{}.base"), "MultiAgent+"),
)
MEMORY_CALLS = "add_samples sample sample_by_index sample_all"
WRAPPERS = [(_modules("skrl.envs.wrappers.{}.base"), cls) for cls in ("Wrapper+", "MultiAgentEnvWrapper+")]
RULES = (
    *(Rule(*agent, "act", "inference") for agent in AGENTS),
    *(Rule(*agent, "record_transition", "replay") for agent in AGENTS),
    *(Rule(*agent, "update", "backpropagation", update=True) for agent in AGENTS),
    *(Rule(*agent, "write_checkpoint", "checkpoint") for agent in AGENTS),
    Rule(_modules("skrl.memories.{}.base"), "Memory+", MEMORY_CALLS, "replay"),
    *(Rule(*wrapper, "step", "simulation", steps="num_envs") for wrapper in WRAPPERS),
    *(Rule(*wrapper, "reset state", "simulation") for wrapper in WRAPPERS),
    Rule(_modules("skrl.trainers.{}.base"), "Trainer+", "eval", "evaluation"),
)
