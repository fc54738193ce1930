"""Weights by way of a file, where there is no NCCL: an engine of transfer in vLLM's workers, and what TRL's clients send.

vLLM's workers import this module (`--worker-extension-cls transfer.Files`), so that it can register the engine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)

NAME = "files"


@dataclass
class Nothing(WeightTransferInitInfo):
    """There is no rendezvous."""


@dataclass
class File(WeightTransferUpdateInfo):
    path: str


class FileEngine(WeightTransferEngine[Nothing, File]):
    init_info_cls = Nothing
    update_info_cls = File

    def init_transfer_engine(self, init_info: Nothing) -> None:
        pass

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: File) -> None:
        self.model.load_weights(load_file(update_info.path).items())

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        pass

    @staticmethod
    def trainer_send_weights(iterator: Iterator[Any], trainer_args: Any) -> None:
        raise NotImplementedError


if NAME not in WeightTransferEngineFactory._registry:
    WeightTransferEngineFactory.register_engine(NAME, FileEngine)


class Files:
    """What `--worker-extension-cls` adds to a worker: nothing."""


_sent = itertools.count()


def write(named: Iterable[tuple[str, torch.Tensor]]) -> dict[str, str]:
    """Save weights, and say where."""
    path = Path(f"weights-{next(_sent)}.safetensors").absolute()
    save_file({name: weight.detach().clone() for name, weight in named}, path)
    return {"path": str(path)}
