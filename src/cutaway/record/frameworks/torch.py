"""Plain PyTorch loops (CleanRL and the like): what computes gradients or steps an optimizer is backpropagation; calls
of networks are marked, and the analysis finds out what they are for (docs/naming.md). An iteration begins with the
first environment step after an update. `torch.compile` says itself when it compiles, lazily or again: that is `compile`, and why
it compiles again is a note. A compiled function is what its graph holds: one that takes gradients is an update, one that multiplies
matrices with a module's parameters is a network.

Collectives of torch.distributed are `sync`, transfer and waiting for the slowest rank together. Gradients that
DistributedDataParallel averages during `backward` never pass through Python and stay part of it.
"""

from __future__ import annotations

from cutaway import _recorder
from cutaway.record.frameworks.hooks import (
    HIDDEN_IN,
    Rule,
    replace,
    span,
    trains,
    watch,
)
from cutaway.record.imports import Any

# Those with an `_object` form call the tensor form, too; only the outermost counts. `isend` and `irecv` return at once, and
# `P2POp` compares them by identity: they are left alone.
COLLECTIVES = (
    "all_reduce all_reduce_coalesced broadcast reduce all_gather all_gather_single all_gather_into_tensor "
    "all_gather_coalesced reduce_scatter reduce_scatter_single reduce_scatter_tensor all_to_all all_to_all_single gather "
    "scatter barrier monitored_barrier send recv all_gather_object gather_object scatter_object_list "
    "broadcast_object_list send_object_list recv_object_list"
)
MOST_NOTES = 5  # about compiling again
# In the names of what a graph of Dynamo calls.
NETWORKS = ("linear", "matmul", "addmm", "bmm", "conv", "attention", "einsum", "lstm")
GRADIENTS = ("grad_increment_nesting", "autograd_grad", "autograd_backward")
_recompiled: set[str] = set()
RULES = (
    Rule("torch.autograd", "", backpropagation="backward grad"),
    # It calls torch.autograd.backward; instrumented itself, so that its caller is the user's line and the user's own name wins.
    Rule("torch._tensor", "Tensor", backpropagation="backward"),
    Rule("torch.optim.optimizer", "Optimizer+", backpropagation="step", update=True),
    Rule("torch.optim.optimizer", "Optimizer", "__init__", on_exit=trains),
    Rule("torch.serialization", "", checkpoint="save"),
    Rule(
        "torch.utils.tensorboard.writer",
        "SummaryWriter",
        "add_scalar add_scalars add_histogram add_text add_image add_video flush",
        mark="log",
    ),
    # The package re-exports these names; where it did so before we came, the copies are instrumented too.
    Rule("torch.distributed.distributed_c10d torch.distributed", "", sync=COLLECTIVES),
)


def _modules(module: Any) -> None:
    import torch  # half imported still, but its C part is there

    gradients = torch._C.is_grad_enabled
    hidden_in = HIDDEN_IN["inference"]
    _recorder.cover_calls(
        module.Module, None, hidden_in=hidden_in, mark="network", gradients=gradients
    )
    watch(module.Module, _recorder.cover_calls_of)


def _compiling(module: Any) -> None:
    """Dynamo tells of everything it compiles: a new frame, a backward pass at its first call, a CUDA graph."""
    module.on_compile_start(_begin_compile)
    module.on_compile_end(_end_compile)


def _begin_compile(what: Any) -> None:
    _recorder.begin_operation("compile")


def _end_compile(what: Any) -> None:
    _recorder.end_operation("compile")


def _graphs(module: Any) -> None:
    """Where a backend has compiled a graph, and hands out the function that runs it."""
    graphs = module.OutputGraph
    compiler = graphs.call_user_compiler

    def call_user_compiler(self: Any, graph: Any, *args: Any, **options: Any) -> Any:
        compiled = compiler(self, graph, *args, **options)
        try:
            return _classified(compiled, graph)
        except Exception as error:  # the program goes on without a name for it
            text = f"{type(error).__name__}: {error}"
            _recorder.note(f"a compiled function is not classified: {text}")
            return compiled

    replace(graphs, "call_user_compiler", call_user_compiler)


def _classified(compiled: Any, graph: Any) -> Any:
    """The compiled function with a hook around it that says what it is for, or itself if that is not known."""
    import torch

    holds = what(graph)
    if holds == "update":
        return span(compiled, "backpropagation", update=True)
    if holds == "network":
        gradients = torch._C.is_grad_enabled
        hidden_in = (*HIDDEN_IN["inference"], "simulation")
        return span(
            compiled, None, hidden_in=hidden_in, mark="network", gradients=gradients
        )
    return compiled


def what(graph: Any) -> str:
    """What a graph of Dynamo is for: update, network, or "" if that cannot be told. Physics multiplies matrices, too: a network reads
    the parameters of modules."""
    called, reads = [], False
    for module in graph.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            called.append(_called(node, module))
            reads |= "_parameters_" in node.name or node.op == "call_module"
    text = " ".join(called)
    if any(word in text for word in GRADIENTS):
        return "update"
    return "network" if reads and any(word in text for word in NETWORKS) else ""


def _called(node: Any, module: Any) -> str:
    if node.op == "call_function":
        return str(getattr(node.target, "__name__", node.target)).lower()
    if node.op == "call_module":
        return type(module.get_submodule(node.target)).__name__.lower()
    return str(node.target).lower() if node.op == "call_method" else ""


def _guards(module: Any) -> None:
    replace(
        module,
        "get_and_maybe_log_recompilation_reasons",
        _noted(module.get_and_maybe_log_recompilation_reasons),
    )


def _noted(reasons_of: Any) -> Any:
    """The function that finds out why a frame is compiled again, with a note of the reason."""

    def reasons(entries: Any, frame: Any, *others: Any, **options: Any) -> Any:
        found = reasons_of(entries, frame, *others, **options)
        if found and len(_recompiled) < MOST_NOTES:
            code = frame.f_code
            reason = str(found[0]).partition(": ")[2].partition("  #")[
                0
            ].strip() or str(found[0])
            text = f"torch.compile compiled {code.co_name} ({code.co_filename}:{code.co_firstlineno}) again: {reason[:200]}"
            if text not in _recompiled:
                _recompiled.add(text)
                _recorder.note(text)
        return found

    return reasons


MODULES = {
    "torch.nn.modules.module": _modules,
    "torch._dynamo.callback": _compiling,
    "torch._dynamo.guards": _guards,
    "torch._dynamo.output_graph": _graphs,
}
