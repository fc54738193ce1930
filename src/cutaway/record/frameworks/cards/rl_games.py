"""rl_games, also as a trainer of Isaac Lab (`RlGamesVecEnvWrapper` is an `IVecEnv`). Its vector environments step as many environments
as they return rewards; with Ray each lives in a process of its own, and the trainer waits for them inside `step`."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule, rewards

AGENT, SAC = (
    ("rl_games.common.a2c_common", "A2CBase+"),
    ("rl_games.algos_torch.sac_agent", "SACAgent+"),
)
CARD = Card(
    "rl_games",
    version="1.6",
    rules=[
        Rule("rl_games.common.ivecenv", "IVecEnv+", simulation="step", steps=rewards),
        Rule("rl_games.common.ivecenv", "IVecEnv+", simulation="reset"),
        Rule(*AGENT, inference="get_action_values get_masked_action_values"),
        Rule(
            *AGENT,
            backpropagation="prepare_dataset train_actor_critic train_central_value",
        ),
        Rule(*AGENT, "play_steps play_steps_rnn", iteration=True),
        Rule(*AGENT, checkpoint="save"),
        Rule(*SAC, inference="act"),
        Rule(*SAC, backpropagation="update", update=True),
        Rule(*SAC, checkpoint="save"),
        Rule(
            "rl_games.common.experience",
            "ExperienceBuffer",
            replay="update_data update_data_rnn",
        ),
        Rule(
            "rl_games.common.experience",
            "VectorizedReplayBuffer",
            replay="add sample",
            mark="batch",
        ),
    ],
    loop="rl_games",
    settings=[
        Settings(
            fewer="num_actors={n}",
            inference="raise num_actors, so that one forward pass serves more environments",
            update="raise minibatch_size (fewer, larger minibatches), or lower mini_epochs",
            passes="lower mini_epochs",
        )
    ],
)
