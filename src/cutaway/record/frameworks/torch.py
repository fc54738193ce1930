"""Plain PyTorch loops (CleanRL and the like): what computes gradients or steps an optimizer is backpropagation; calls
of networks are marked, and the analysis finds out what they are for (docs/naming.md). An iteration begins with the
first environment step after an update.
"""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks.cover import HIDDEN_IN, cover, cover_family, watch
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any


def install() -> None:
    when_imported("torch.autograd", _autograd)
    when_imported("torch.optim.optimizer", _optimizers)
    when_imported("torch.nn.modules.module", _modules)
    when_imported("torch.serialization", _checkpoints)


def _autograd(module: ModuleType) -> None:
    cover(module, "backward", "backpropagation")
    cover(module, "grad", "backpropagation")


def _optimizers(module: ModuleType) -> None:
    cover_family(module.Optimizer, ("step",), "backpropagation", update=True)
    cover(module.Optimizer, "__init__", None, on_exit=_optimizer_made)


def _optimizer_made(optimizer: Any, nothing: Any) -> None:
    """This process trains: its iterations end with updates."""
    _recorder.expect_updates()


def _modules(module: ModuleType) -> None:
    import torch  # half imported still, but its C part is there

    _recorder.cover_calls(
        module.Module,
        None,
        hidden_in=HIDDEN_IN["inference"],
        mark="network",
        gradients=torch._C.is_grad_enabled,
    )
    watch(module.Module, _recorder.cover_calls_of)


def _checkpoints(module: ModuleType) -> None:
    cover(module, "save", "checkpoint")
