"""What a GPU holds of a model under degrees that are yet to be chosen."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import get_args

from sizing.cluster import ResolvedNode
from sizing.layout import Parallelism
from sizing.layout.cells import cells_of
from sizing.layout.formats import CheckpointFormat
from sizing.layout.layout import trained_inventory
from sizing.layout.resolved import resolved_model
from sizing.layout.sharding import Sharding, sharding_of
from sizing.layout.stages import stage_spans
from sizing.model import Model, ResolvedModel
from sizing.state import Training
from sizing.state.training import Recomputation
from sizing.training.execution import value_bytes
from sizing.training.gathered import Gathered, gathered_by_fsdp, gathered_by_zero3
from sizing.training.gpu_memory import GpuMemory, gpu_memory

RECOMPUTATIONS: tuple[Recomputation, ...] = get_args(Recomputation)
"""From the max memory to the min."""

HEADROOM_FRACTION = 0.1
"""Of a GPU's memory, kept for what is not counted, where no other share is asked for."""


class MemoryQuestion:
    """A model and how it is trained, in which format it is saved, on which nodes."""

    def __init__(self, model: Model, training: Training, *, saved_as: CheckpointFormat, node: ResolvedNode) -> None:
        self.training = training
        self.saved_as = saved_as
        self.node = node
        self._resolved = functools.cache(lambda tensor: resolved_model(model, training, Parallelism(tensor=tensor)))

    def model(self, *, tensor: int) -> ResolvedModel:
        """The model as that many tensor ranks hold it."""
        return self._resolved(tensor)

    def with_distributed_optimizer(self) -> MemoryQuestion:
        """The same with the optimizer divided over the replicas."""
        other = copy.copy(self)
        other.training = self.training.model_copy(update={"distributed_optimizer": True})
        return other

    def sharding(self, parallelism: Parallelism) -> Sharding:
        """How replicas divide the state."""
        return sharding_of(self.training, parallelism)

    def memory(
        self, parallelism: Parallelism, *, room_bytes: float, recomputations: Sequence[Recomputation]
    ) -> GpuMemory:
        """With the first of some recomputations that needs no more than the room, else with the last of them.

        Raises InvalidInput where batch and degrees do not go together.
        """
        model = self.model(tensor=parallelism.tensor)
        inventory = trained_inventory(model.inventory, self.training)
        num_layers = model.num_layers
        cells = cells_of(stage_spans(inventory, parallelism, num_layers=num_layers), parallelism, ())
        sharding = self.sharding(parallelism)
        for recomputation in recomputations:
            training = self.training.model_copy(update={"recomputation": recomputation})
            found = gpu_memory(training, parallelism, cells=cells, sharding=sharding, model=model, node=self.node)
            if found.needed_bytes <= room_bytes:
                break
        return found

    def gathered(self, parallelism: Parallelism) -> Gathered | None:
        """What FSDP or ZeRO 3 gathers of the model at a time, where it shards over several ranks."""
        inventory, w = self.model(tensor=parallelism.tensor).inventory, value_bytes(self.training)
        match self.sharding(parallelism).gathers:
            case "layers":
                return gathered_by_fsdp(inventory, value_bytes=w)
            case "modules":
                return gathered_by_zero3(inventory, value_bytes=w, tensor=parallelism.tensor)
            case "nothing":
                return None

    def remedies(self, num_gpus: int) -> str:
        """What leaves a GPU less to hold than any degrees on these GPUs, in words."""
        per_node = self.node.spec.gpus_per_node
        more = "Use more GPUs" + (f" in whole nodes of {per_node}" if num_gpus % per_node else "")
        return more + (", a smaller micro_batch_size" if (self.training.micro_batch_size or 1) > 1 else "")
