"""TD3 and DDPG, the same to the last weight, written for seven ways to run a network: `python -m cutaway_workloads.backends`.

`loop.py` is the training loop that all share; `agent.py` says what an agent is. Every other file is one backend, and the algorithm
reads the same in each. Nothing is annotated but the iteration: naming the operations is Cutaway's job.
"""

from __future__ import annotations

import importlib

from .agent import Agent, Settings, Weights

BACKENDS = {
    "torch": "torch_eager",
    "torch-compile": "torch_compile",
    "tf-eager": "tf_eager",
    "tf-function": "tf_function",
    "tf-graph": "tf_graph",
    "jax": "jax_jit",
    "jax-scan": "jax_scan",
}


def make(backend: str, settings: Settings, weights: Weights) -> Agent:
    """The agent of a backend, with these weights to begin with."""
    module = importlib.import_module(f".{BACKENDS[backend]}", __name__)
    agent: Agent = module.BackendAgent(settings, weights)
    return agent
