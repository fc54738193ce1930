"""skrl, on torch, JAX and Warp alike: agents, memories, environment wrappers; `eval` of a trainer is evaluation."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.frameworks.cover import cover_family
from cutaway.record.imports import when_imported

BACKENDS = ("torch", "jax", "warp")


def install() -> None:
    for backend in BACKENDS:
        when_imported(f"skrl.agents.{backend}.base", _agents)
        when_imported(f"skrl.multi_agents.{backend}.base", _agents)
        when_imported(f"skrl.memories.{backend}.base", _memories)
        when_imported(f"skrl.envs.wrappers.{backend}.base", _wrappers)
        when_imported(f"skrl.trainers.{backend}.base", _trainers)


def _agents(module: ModuleType) -> None:
    agent = module.MultiAgent if hasattr(module, "MultiAgent") else module.Agent
    cover_family(agent, ("act",), "inference")
    cover_family(agent, ("record_transition",), "replay")
    cover_family(agent, ("update",), "backpropagation", update=True)
    cover_family(agent, ("write_checkpoint",), "checkpoint")


def _memories(module: ModuleType) -> None:
    cover_family(module.Memory, ("add_samples", "sample", "sample_by_index", "sample_all"), "replay")


def _wrappers(module: ModuleType) -> None:
    for wrapper in (module.Wrapper, module.MultiAgentEnvWrapper):
        cover_family(wrapper, ("step",), "simulation", steps="num_envs")
        cover_family(wrapper, ("reset", "state"), "simulation")


def _trainers(module: ModuleType) -> None:
    cover_family(module.Trainer, ("eval",), "evaluation")
