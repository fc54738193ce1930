"""Tables for programs that others wrote and that run unmodified: which lines and functions are what. `samples.py` reads them.

A script without functions is told by its lines, which are those of the commit that docs/evidence/naming.md names.
"""

from __future__ import annotations

Table = dict[str, str | None]

WORLDS: Table = {
    "gymnasium/*:step": "simulation",
    "gymnasium/*:reset": "simulation",
    "gym/*:step": "simulation",
    "gym/*:reset": "simulation",
}
"""Environments of gymnasium and gym, whoever steps them."""

_LEAN_DQN = "leanrl/dqn_torchcompile.py"
_LEANRL = "leanrl/ppo_continuous_action_torchcompile.py"
_CLEANRL_PPO = "cleanrl/ppo_continuous_action.py"
_CLEANRL_JAX = "cleanrl/dqn_jax.py"
_SF = "sample_factory/algo"
_RUNNER = "rllib/env/single_agent_env_runner.py"

TABLES: dict[str, Table] = {
    "minimalrl_a3c": WORLDS
    | {
        "minimalRL/a3c.py:52-54": "inference",
        "minimalRL/a3c.py:55-55": "simulation",
        "minimalRL/a3c.py:57-61": "replay",
        "minimalRL/a3c.py:65-87": "backpropagation",
        "minimalRL/a3c.py:102-103": "inference",
        "minimalRL/a3c.py:112-112": "",
    },
    "minimalrl_dqn": WORLDS
    | {
        "minimalRL/dqn.py:94-94": "inference",
        "minimalRL/dqn.py:97-97": "replay",
        "minimalRL/dqn.py:16-40": "replay",
        "minimalRL/dqn.py:67-75": "backpropagation",
        "minimalRL/dqn.py:108-108": "backpropagation",
    },
    "minimalrl_ppo": WORLDS
    | {
        "minimalRL/ppo.py:98-100": "inference",
        "minimalRL/ppo.py:101-101": "simulation",
        "minimalRL/ppo.py:37-38": "replay",
        "minimalRL/ppo.py:103-103": "replay",
        "minimalRL/ppo.py:59-85": "backpropagation",
        "minimalRL/ppo.py:110-110": "backpropagation",
    },
    "minimalrl_sac": WORLDS
    | {
        "minimalRL/sac.py:149-149": "inference",
        "minimalRL/sac.py:150-150": "simulation",
        "minimalRL/sac.py:25-43": "replay",
        "minimalRL/sac.py:151-151": "replay",
        "minimalRL/sac.py:71-88": "backpropagation",
        "minimalRL/sac.py:107-129": "backpropagation",
        "minimalRL/sac.py:159-164": "backpropagation",
    },
    "fujimoto_td3": {
        "TD3/main.py:15-32": "evaluation",
        "TD3/main.py:117-123": "inference",
        "TD3/main.py:126-126": "simulation",
        "TD3/main.py:130-130": "replay",
        "TD3/main.py:143-143": "simulation",
        "TD3/utils.py:add": "replay",
        "TD3/utils.py:sample": "replay",
        "TD3/TD3.py:104-152": "backpropagation",
    },
    "alpha_zero_general": {
        "alpha-zero-general/MCTS.py:getActionProb": "search",
        "alpha-zero-general/MCTS.py:search": "search",
        "othello/pytorch/NNet.py:predict": "inference",
        "othello/pytorch/NNet.py:36-76": "backpropagation",
        "othello/pytorch/NNet.py:save_checkpoint": "checkpoint",
        "othello/pytorch/NNet.py:load_checkpoint": "checkpoint",
        "alpha-zero-general/Coach.py:55-55": "simulation",
        "alpha-zero-general/Coach.py:59-66": "simulation",
        "alpha-zero-general/Coach.py:saveTrainExamples": "checkpoint",
    },
    "corl_td3_bc": {
        "offline/td3_bc.py:142-149": "replay",
        "offline/td3_bc.py:477-478": "replay",
        "offline/td3_bc.py:305-361": "backpropagation",
        "offline/td3_bc.py:181-198": "evaluation",
    },
    "cleanrl_ppo_continuous": WORLDS
    | {
        f"{_CLEANRL_PPO}:209-210": "replay",
        f"{_CLEANRL_PPO}:213-217": "inference",
        f"{_CLEANRL_PPO}:220-220": "simulation",
        f"{_CLEANRL_PPO}:221-223": "replay",
        f"{_CLEANRL_PPO}:233-308": "backpropagation",
    },
    "cleanrl_dqn_jax": WORLDS
    | {
        f"{_CLEANRL_JAX}:187-193": "inference",
        f"{_CLEANRL_JAX}:196-196": "simulation",
        f"{_CLEANRL_JAX}:207-219": "replay",
        f"{_CLEANRL_JAX}:221-240": "backpropagation",
    },
    "cleanrl_c51": WORLDS
    | {
        "cleanrl/c51.py:178-183": "inference",
        "cleanrl/c51.py:186-186": "simulation",
        "cleanrl/c51.py:197-201": "replay",
        "cleanrl/c51.py:209-209": "replay",
        "cleanrl/c51.py:210-246": "backpropagation",
    },
    "cleanrl_td3": WORLDS
    | {
        "cleanrl/td3_continuous_action.py:198-204": "inference",
        "cleanrl/td3_continuous_action.py:207-207": "simulation",
        "cleanrl/td3_continuous_action.py:219-223": "replay",
        "cleanrl/td3_continuous_action.py:230-230": "replay",
        "cleanrl/td3_continuous_action.py:231-281": "backpropagation",
    },
    "leanrl_ppo_compiled": WORLDS
    | {
        f"{_LEANRL}:181-181": "inference",
        f"{_LEANRL}:184-184": "simulation",
        f"{_LEANRL}:193-209": "replay",
        f"{_LEANRL}:299-301": "simulation",
        f"{_LEANRL}:358-371": "backpropagation",
    },
    "leanrl_dqn_compiled": WORLDS
    | {
        f"{_LEAN_DQN}:201-202": "inference",
        f"{_LEAN_DQN}:205-205": "simulation",
        f"{_LEAN_DQN}:214-238": "replay",
        f"{_LEAN_DQN}:246-248": "replay",
        f"{_LEAN_DQN}:249-252": "backpropagation",
    },
    "rl_games": WORLDS
    | {
        "common/a2c_common.py:get_action_values": "inference",
        "common/a2c_common.py:env_step": "simulation",
        "common/a2c_common.py:env_reset": "simulation",
        "common/experience.py:update_data": "replay",
        "common/a2c_common.py:prepare_dataset": "backpropagation",
        "common/a2c_common.py:discount_values": "backpropagation",
        "common/a2c_common.py:train_actor_critic": "backpropagation",
        "algos_torch/a2c_discrete.py:train_actor_critic": "backpropagation",
        "algos_torch/a2c_discrete.py:prepare_dataset": "backpropagation",
        "algos_torch/torch_ext.py:save_checkpoint": "checkpoint",
    },
    "brax_ppo": {
        "training/acting.py:run_evaluation": "evaluation",
        "agents/ppo/train.py:training_epoch_with_timing": "training program",
    },
    "purejaxrl": {"purejaxrl/ppo.py:296-297": "training program"},
    "sample_factory": WORLDS
    | {
        f"{_SF}/sampling/non_batched_sampling.py:*": "replay",
        f"{_SF}/sampling/batched_sampling.py:*": "replay",
        f"{_SF}/sampling/rollout_worker.py:advance_rollouts": "replay",
        f"{_SF}/sampling/inference_worker.py:_handle_policy_steps": "inference",
        f"{_SF}/utils/model_sharing.py:ensure_weights_updated": "sync",
        f"{_SF}/learning/batcher.py:on_new_trajectories": "replay",
        f"{_SF}/learning/batcher.py:on_training_batch_released": "replay",
        f"{_SF}/learning/learner.py:train": "backpropagation",
        f"{_SF}/learning/learner.py:save": "checkpoint",
        "signal_slot/signal_slot.py:_loop_iteration": "",
    },
    "rllib": WORLDS
    | {
        # RLlib's own timers (ray 2.60): sampling, adding, drawing, updating, priorities, weights.
        "dqn/dqn.py:654-664": "simulation",
        "dqn/dqn.py:667-668": "replay",
        "dqn/dqn.py:686-712": "replay",
        "dqn/dqn.py:715-749": "backpropagation",
        "dqn/dqn.py:752-756": "replay",
        "dqn/dqn.py:760-768": "sync",
        f"{_RUNNER}:351-367": "inference",
        f"{_RUNNER}:427-437": "inference",
        f"{_RUNNER}:sample": "simulation",
        "core/learner/learner.py:update": "backpropagation",
        "core/learner/learner_group.py:update": "backpropagation",
        "replay_buffers/*:add": "replay",
        "replay_buffers/*:sample": "replay",
        "replay_buffers/*:update_priorities": "replay",
        "execution/rollout_ops.py:synchronous_parallel_sample": "simulation",
        "rllib/env/env_runner_group.py:sync_weights": "sync",
        "rllib/env/env_runner_group.py:sync_env_runner_states": "sync",
        f"{_RUNNER}:set_state": "sync",
    },
}
