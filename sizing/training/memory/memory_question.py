"""What a GPU holds of a model under degrees that are yet to be chosen."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_args

from sizing.cluster import ResolvedNode
from sizing.layout import Parallelism
from sizing.layout.cells import Cell, cells_of
from sizing.layout.formats import CheckpointFormat
from sizing.layout.layout import trained_inventory
from sizing.layout.resolved import resolved_model
from sizing.layout.sharding import Sharding
from sizing.layout.stages import stage_spans
from sizing.model import Model, ResolvedModel
from sizing.state import Training
from sizing.state.training import Recomputation
from sizing.training.execution import value_bytes
from sizing.training.memory.gathered import Gathered, gathered_by_fsdp, gathered_by_zero3
from sizing.training.memory.gpu_memory import GpuMemory, gpu_memory
from sizing.training.memory.host_bytes import state_bytes_off_gpu
from sizing.training.memory.state_memory import StateRule
from sizing.training.time.work import model_work

RECOMPUTATIONS: tuple[Recomputation, ...] = get_args(Recomputation)
"""From the max memory to the min."""

_REPLICAS: dict[str, Any] = {"context": 1, "data": 1, "shard_group": None, "zero_stage": None}
"""Degrees that say how many ranks hold a tensor, not which ranks of a replica do."""

HEADROOM_FRACTION = 0.1
"""Of a GPU's memory, kept for what is not counted, where no other share is asked for."""


class MemoryQuestion:
    """A model and how it is trained, in which format it is saved, on which nodes."""

    def __init__(self, model: Model, training: Training, *, saved_as: CheckpointFormat, node: ResolvedNode) -> None:
        self.training = training
        self.saved_as = saved_as
        self.node = node
        self._resolved = functools.cache(lambda tensor: resolved_model(model, training, Parallelism(tensor=tensor)))
        self._work = functools.cache(lambda tensor: model_work(self._resolved(tensor)))
        self._known_cells: dict[tuple[Parallelism, bool], Sequence[Cell]] = {}

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
        return self.saved_as.sharding(self.training, parallelism)

    def memory(
        self, parallelism: Parallelism, *, room_bytes: float, recomputations: Sequence[Recomputation]
    ) -> GpuMemory:
        """With the first of some recomputations that needs no more than the room, else with the last of them.

        Raises InvalidInput where batch and degrees do not go together.
        """
        *_, found = self.tried(parallelism, room_bytes=room_bytes, recomputations=recomputations)
        return found

    def tried(
        self,
        parallelism: Parallelism,
        *,
        room_bytes: float,
        recomputations: Sequence[Recomputation],
        training: Training | None = None,
    ) -> Iterator[GpuMemory]:
        """With one recomputation after another, until one needs no more than the room.

        `training`: another batch or schedule than the question's.
        Raises InvalidInput where batch and degrees do not go together.
        """
        memory_of = self.memories(parallelism)
        for recomputation in recomputations:
            found = memory_of((training or self.training).model_copy(update={"recomputation": recomputation}))
            yield found
            if found.needed_bytes <= room_bytes:
                break

    def memories(self, parallelism: Parallelism) -> Callable[[Training], GpuMemory]:
        """What a GPU holds by how it trains; what the degrees alone decide is found once.

        The function raises InvalidInput where batch and degrees do not go together.
        """
        sharding = self.sharding(parallelism)

        def memory_of(training: Training) -> GpuMemory:
            return gpu_memory(
                training,
                parallelism,
                cells=self._cells(parallelism, training),
                sharding=sharding,
                model=self.model(tensor=parallelism.tensor),
                node=self.node,
                work=self._work(parallelism.tensor),
            )

        return memory_of

    def host_state_bytes(self, parallelism: Parallelism, training: Training, *, place: str) -> float:
        """Bytes of state that the fullest rank keeps in a place off its GPU."""
        cells, rule = self._cells(parallelism, training), StateRule.of(training, self.sharding(parallelism))
        return state_bytes_off_gpu(training, parallelism, place=place, cells=cells, rule=rule)

    def _cells(self, parallelism: Parallelism, training: Training) -> Sequence[Cell]:
        asked = parallelism.model_copy(update=_REPLICAS), training.folds_pipeline
        if asked not in self._known_cells:
            self._known_cells[asked] = self._new_cells(parallelism, training)
        return self._known_cells[asked]

    def _new_cells(self, parallelism: Parallelism, training: Training) -> Sequence[Cell]:
        model = self.model(tensor=parallelism.tensor)
        inventory, is_folded = trained_inventory(model.inventory, training), training.folds_pipeline
        spans = stage_spans(inventory, parallelism, num_layers=model.num_layers, is_folded=is_folded)
        return cells_of(spans, parallelism, ())

    def gathered(self, parallelism: Parallelism) -> Gathered | None:
        """What FSDP or ZeRO 3 gathers of the model at a time, where it shards over several ranks.

        What the stages of a pipeline keep gathered is counted in their memory.
        """
        inventory, w = self.model(tensor=parallelism.tensor).inventory, value_bytes(self.training)
        match self.sharding(parallelism).gathers:
            case "layers":
                return gathered_by_fsdp(inventory, parallelism, value_bytes=w)
            case "modules":
                return gathered_by_zero3(inventory, value_bytes=w, tensor=parallelism.tensor)
            case "stages" | "nothing":
                return None

    def remedies(self, num_gpus: int) -> str:
        """What leaves a GPU less to hold than any degrees on these GPUs, in words."""
        per_node = self.node.spec.gpus_per_node
        more = "Use more GPUs" + (f" in whole nodes of {per_node}" if num_gpus % per_node else "")
        return more + (", a smaller micro_batch_size" if (self.training.micro_batch_size or 1) > 1 else "")
