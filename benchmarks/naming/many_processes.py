"""Tables for JAX programs and programs of many processes or threads that others wrote, like those of `strangers.py`."""

from __future__ import annotations

Table = dict[str, str | None]

WAITS: Table = {
    "multiprocessing/connection.py:_recv": "",
    "multiprocessing/connection.py:wait": "",
    "multiprocessing/synchronize.py:*": "",
    "multiprocessing/popen_fork.py:poll": "",
    "python3.11/threading.py:wait": "",
    "python3.11/selectors.py:select": "",
}
"""Where a process or thread waits for another, in Python's own library."""

_RUNNER = "rllib/env/single_agent_env_runner.py"
_TD3_JAX = "cleanrl/td3_continuous_action_jax.py"

TABLES: dict[str, Table] = {
    "cleanrl_td3_jax": {
        "gymnasium/*:step": "simulation",
        "gymnasium/*:reset": "simulation",
        f"{_TD3_JAX}:259-270": "inference",
        f"{_TD3_JAX}:273-273": "simulation",
        f"{_TD3_JAX}:284-288": "replay",
        f"{_TD3_JAX}:295-295": "replay",
        f"{_TD3_JAX}:297-321": "backpropagation",
        f"{_TD3_JAX}:322-324": "",
    },
    "purejaxql": {"purejaxql/pqn_gymnax.py:452-452": "training program"},
    "monobeast": WAITS
    | {
        "core/environment.py:step": "simulation",
        "core/environment.py:initial": "simulation",
        "torchbeast/monobeast.py:149-149": "",
        "torchbeast/monobeast.py:153-159": "replay",
        "torchbeast/monobeast.py:165-166": "inference",
        "torchbeast/monobeast.py:170-170": "simulation",
        "torchbeast/monobeast.py:174-177": "replay",
        "torchbeast/monobeast.py:203-205": "",
        "torchbeast/monobeast.py:207-223": "replay",
        "torchbeast/monobeast.py:237-237": "",
        "torchbeast/monobeast.py:238-295": "backpropagation",
        "torchbeast/monobeast.py:107-125": "backpropagation",
        "torchbeast/monobeast.py:430-430": "",
        "torchbeast/monobeast.py:470-470": "",
        "torchbeast/monobeast.py:checkpoint": "checkpoint",
        "core/file_writer.py:*": "",
    },
    "ape_x": WAITS
    | {
        "gym/*:step": "simulation",
        "gym/*:reset": "simulation",
        "Ape-X/wrapper.py:step": "simulation",
        "Ape-X/wrapper.py:reset": "simulation",
        "Ape-X/actor.py:80-80": "inference",
        "Ape-X/actor.py:81-81": "simulation",
        "Ape-X/actor.py:82-82": "replay",
        "Ape-X/actor.py:90-90": "simulation",
        "Ape-X/actor.py:97-103": "sync",
        "Ape-X/actor.py:105-109": "replay",
        "Ape-X/actor.py:110-112": "",
        "Ape-X/actor.py:113-115": "replay",
        "Ape-X/learner.py:153-153": "",
        "Ape-X/learner.py:154-155": "backpropagation",
        "Ape-X/learner.py:156-156": "replay",
        "Ape-X/learner.py:165-165": "backpropagation",
        "Ape-X/learner.py:168-168": "checkpoint",
        "Ape-X/learner.py:169-170": "sync",
        "Ape-X/utils.py:compute_loss": "backpropagation",
        "Ape-X/utils.py:update_parameters": "backpropagation",
        "Ape-X/learner.py:100-112": "replay",
        "Ape-X/replay.py:push_batch": "replay",
        "Ape-X/replay.py:update_prios": "replay",
        "Ape-X/replay.py:sample_batch": "replay",
    },
    "rllib_impala": WAITS
    | {
        "gymnasium/*:step": "simulation",
        "gymnasium/*:reset": "simulation",
        f"{_RUNNER}:210-235": "sync",
        f"{_RUNNER}:351-367": "inference",
        f"{_RUNNER}:427-437": "inference",
        f"{_RUNNER}:sample": "simulation",
        f"{_RUNNER}:_sample": "simulation",
        f"{_RUNNER}:set_state": "sync",
        # The learner's main thread makes batches, the other one updates.
        "impala/impala_learner.py:227-232": "replay",
        "impala/impala_learner.py:235-280": "",
        "impala/impala_learner.py:526-526": "",
        "impala/impala_learner.py:548-555": "backpropagation",
        "impala/impala_learner.py:573-607": "sync",
        "core/learner/learner.py:update": "backpropagation",
        "rllib/env/env_runner_group.py:sync_env_runner_states": "sync",
        "impala/impala.py:818-827": "backpropagation",
    },
}
