"""torch.distributed: collectives are `sync`, transfer and waiting for the slowest rank together. Gradients that
DistributedDataParallel averages during `backward` never pass through Python and stay part of it."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.frameworks.cover import cover
from cutaway.record.imports import when_imported

# Those with an `_object` form call the tensor form, too; only the outermost counts.
COLLECTIVES = (
    "all_reduce all_reduce_coalesced broadcast reduce all_gather all_gather_single all_gather_into_tensor "
    "all_gather_coalesced reduce_scatter reduce_scatter_single reduce_scatter_tensor all_to_all all_to_all_single gather "
    "scatter barrier monitored_barrier send recv all_gather_object gather_object scatter_object_list "
    "broadcast_object_list send_object_list recv_object_list"
).split()


def install() -> None:
    when_imported("torch.distributed.distributed_c10d", _collectives)
    when_imported("torch.distributed", _names_again)


def _collectives(module: ModuleType) -> None:
    """`isend` and `irecv` return at once, and `P2POp` compares them by identity: they are left alone."""
    for name in COLLECTIVES:
        cover(module, name, "sync")


def _names_again(module: ModuleType) -> None:
    """The package repeats the names; where it did so before we came, these are covered apart."""
    for name in COLLECTIVES:
        cover(module, name, "sync")
