"""What the functions of a framework are for, as an expert reads them in its sources: the tables for `samples.py`.

A key is FILE:FUNCTION, where FILE is how the path ends; `*` is any function of the file, and FOLDER/*:FUNCTION any file below a
folder. FILE:FIRST-LAST are lines of a script that has no functions. Of the frames on a stack, the innermost one that is in the table
decides. An empty operation says that the process waits for work there. `None` says that the function serves
its caller, whatever that is.
"""

from __future__ import annotations

from benchmarks.naming import many_processes, strangers, torch_scripts

Table = dict[str, str | None]

COMPILING: Table = {
    "jax/_src/compiler.py:*": "compile",
    "jax/_src/interpreters/partial_eval.py:trace_to_jaxpr": "compile",
    "jax/_src/interpreters/mlir.py:*": "compile",
    "torch/_dynamo/convert_frame.py:*": "compile",
    "torch/_inductor/compile_fx.py:*": "compile",
}

TABLES: dict[str, Table] = (
    strangers.TABLES
    | many_processes.TABLES
    | torch_scripts.TABLES
    | {
        "rsl_rl": {
            "rsl_rl/algorithms/ppo.py:act": "inference",
            "rsl_rl/algorithms/ppo.py:process_env_step": "replay",
            "rsl_rl/algorithms/ppo.py:compute_returns": "backpropagation",
            "rsl_rl/algorithms/ppo.py:update": "backpropagation",
            "rsl_rl_ppo.py:step": "simulation",
        },
    }
)
