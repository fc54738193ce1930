"""AlphaZero of OpenSpiel on tic-tac-toe: a learner, two actors and an evaluator, in processes of their own."""

from pathlib import Path

from benchmarks.naming.truth import annotate, iterations, operation
from open_spiel.python.algorithms import mcts
from open_spiel.python.algorithms.alpha_zero import (
    alpha_zero,
    model_linen,
    replay_buffer,
)
from open_spiel.python.utils import stats

FRAMEWORK = "OpenSpiel"


class Annotated:
    """A module, with one function annotated."""

    def __init__(self, module, function, name):
        self.module = module
        setattr(self, function, self.within(getattr(module, function), name))

    @staticmethod
    def within(function, name):
        def annotated(*args, **kwargs):
            with operation(name):
                return function(*args, **kwargs)

        return annotated

    def __getattr__(self, name):
        return getattr(self.module, name)


# At the top of the file, since every process imports it.
alpha_zero.jnp = Annotated(
    alpha_zero.jnp, "asarray", "replay"
)  # the learner converts what it stores
alpha_zero.time = Annotated(
    alpha_zero.time, "sleep", "simulation"
)  # and sleeps until its actors have played
annotate(alpha_zero, "_play_game", "simulation")
annotate(alpha_zero, "update_checkpoint", "sync")
annotate(alpha_zero, "evaluator", "evaluation")
annotate(mcts.MCTSBot, "mcts_search", "search")
annotate(model_linen.Model, "inference", "inference")
annotate(model_linen.Model, "update", "backpropagation")
annotate(model_linen.Model, "save_checkpoint", "checkpoint")
annotate(replay_buffer.Buffer, "append", "replay")
annotate(replay_buffer.Buffer, "sample", "replay")
iterations(stats.HistogramNamed, "reset")

if __name__ == "__main__":
    alpha_zero.alpha_zero(
        alpha_zero.Config(
            game="tic_tac_toe", path=str(Path("az").absolute()), learning_rate=0.01, weight_decay=1e-4,
            decouple_weight_decay=False, train_batch_size=32, replay_buffer_size=128, replay_buffer_reuse=2,
            max_steps=4, checkpoint_freq=10, actors=2, evaluators=1, evaluation_window=10, eval_levels=2, uct_c=2,
            max_simulations=4, policy_alpha=1, policy_epsilon=0.25, temperature=1, temperature_drop=4, nn_model="mlp",
            nn_width=32, nn_depth=2, observation_shape=None, output_size=None, verbose=False, quiet=True,
            nn_api_version="linen",
        )
    )  # fmt: skip
