"""OpenSpiel: searches of its bots, and the three kinds of processes of its AlphaZero."""

from __future__ import annotations

from pathlib import Path

from recorded import one, record, script


def test_search_with_rollouts_inside(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import numpy as np, pyspiel
        from open_spiel.python.algorithms import mcts
        game = pyspiel.load_game("tic_tac_toe")
        random = np.random.RandomState(0)
        bot = mcts.MCTSBot(game, 2.0, 10, mcts.RandomRolloutEvaluator(1, random), solve=False, random_state=random)
        state = game.new_initial_state()
        for _ in range(3): state.apply_action(bot.step(state))
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.operations["search"] == 3
    assert seen.inside["simulation", "search"] == 3 * 10
    assert seen.role == "actor"


def test_alpha_zero(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import os
        from open_spiel.python.algorithms.alpha_zero import alpha_zero
        if __name__ == "__main__":
            alpha_zero.alpha_zero(alpha_zero.Config(
                game="tic_tac_toe", path=os.path.abspath("az"), learning_rate=0.01, weight_decay=1e-4,
                decouple_weight_decay=False, train_batch_size=4, replay_buffer_size=8, replay_buffer_reuse=4,
                max_steps=2, checkpoint_freq=10, actors=1, evaluators=1, evaluation_window=4, eval_levels=2, uct_c=2,
                max_simulations=2, policy_alpha=1, policy_epsilon=0.25, temperature=1, temperature_drop=4,
                nn_model="mlp", nn_width=4, nn_depth=1, observation_shape=None, output_size=None, verbose=False,
                quiet=True, nn_api_version="linen",
            ))
        """,
    )
    seen = record(tmp_path, "train.py")
    learner = one(seen, role="learner")
    assert (learner.name, learner.iterations) == ("train", 2)
    assert learner.operations["backpropagation"] > 0
    assert learner.operations["replay"] > learner.operations["backpropagation"]
    assert learner.operations["checkpoint"] == 3
    assert learner.operations["simulation"] > 0  # it waits for games
    actor = one(seen, name="actor-0", role="actor")
    assert actor.steps == actor.inside["search", "simulation"] > 0
    assert actor.inside["inference", "search"] > 0
    assert actor.operations["sync"] > 0
    evaluator = one(seen, name="evaluator-0", role="evaluation")
    assert evaluator.operations["evaluation"] == 1
    assert set(evaluator.operations) <= {"evaluation", "compile"}
