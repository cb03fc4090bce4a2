"""Tensors that each process of MLPerf Storage's checkpoint workloads writes.

Source: argonne-lcf/dlio_benchmark, checkpointing/base_checkpointing.py, which MLPerf Storage runs: fp16 weights, and
per process an equal share of the optimizer in fp32, three times, each with 5 x hidden values more. Divisions are whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from io_bench.options import MlperfModel
from io_bench.payload.inventory import Inventory, TensorSpec
from io_bench.payload.workload import Size, scale_tensors
from sizing.published import published
from sizing.units import BYTES_PER_GIBIBYTE, bytes_text

NAMES: tuple[MlperfModel, ...] = get_args(MlperfModel)
_FACTS = "mlperf_storage_checkpoint"
_NUM_STATES = 3
"""Master weights and two moments."""
_EXTRA_HIDDEN_VALUES = 5
"""Values per state of the optimizer for each unit of the hidden size, beside the share of the parameters."""


class Shape(BaseModel):
    """The model and the degrees of a workload."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    hidden_size: int = Field(description="Width of the hidden layers.")
    num_layers: int = Field(description="Transformer layers.")
    ffn_hidden_size: int = Field(description="Inner width of the feed-forward part.")
    num_attention_heads: int = Field(description="Heads of queries.")
    num_kv_heads: int = Field(description="Heads of keys and values.")
    vocab_size: int = Field(description="Rows of embedding and head.")
    tensor_parallel: int = Field(description="Degree of tensor parallelism.")
    pipeline_parallel: int = Field(description="Stages of the pipeline.")
    data_parallel: int = Field(description="Degree of data parallelism of a closed run.")
    zero_stage: Literal[1, 3] = Field(description="What data-parallel processes divide: optimizer (1), or all (3).")

    @property
    def num_processes(self) -> int:
        """Processes of a closed run."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def layer_lengths(self) -> tuple[int, ...]:
        """Values of the tensors of one transformer layer that a process holds; cut tensors before data sharding."""
        hidden, tensor = self.hidden_size, self.tensor_parallel
        kv = hidden // self.num_attention_heads * self.num_kv_heads
        cut = (hidden * (hidden + 2 * kv), hidden * hidden)
        ffn = (2 * hidden * self.ffn_hidden_size, hidden * self.ffn_hidden_size)
        qkv, dense, up, down = (size // tensor for size in (*cut, *ffn))
        return hidden, qkv, dense, hidden, up, down

    @property
    def num_parameters(self) -> int:
        """Parameters as the benchmark counts them: head and embedding apart.

        >>> shape_of("405b").num_parameters, shape_of("8b").num_parameters
        (405853388800, 8030261248)
        """
        hidden = self.hidden_size
        kv = hidden // self.num_attention_heads * self.num_kv_heads
        layer = 2 * hidden + hidden * (hidden + 2 * kv) + hidden * hidden + 3 * hidden * self.ffn_hidden_size
        return 2 * self.vocab_size * hidden + layer * self.num_layers + hidden


def shape_of(name: MlperfModel) -> Shape:
    """The shape of a workload by its name."""
    facts = published(_FACTS)
    return Shape.model_validate((facts["workloads"] | facts["unpublished_workloads"])[name])


def subset_processes() -> int:
    """Processes of a closed run on one node."""
    return int(published(_FACTS)["subset_processes"])


def num_checkpoints_of_rules() -> int:
    """Checkpoints that a closed run writes, and reads."""
    return int(published(_FACTS)["num_checkpoints"])


def recorded_bytes(name: MlperfModel) -> int | None:
    """The bytes of a whole checkpoint as a published run has recorded them; None where none was found."""
    row: dict[str, Any] = published(_FACTS)["workloads"].get(name, {})
    return round(row["total_gib"] * BYTES_PER_GIBIBYTE) if row else None


@dataclass(frozen=True)
class MlperfWorkload:
    """The tensors that each process of a workload saves. Fulfils WriterWorkload.

    With fewer processes than it has, the first ones write what they would write among all: the subset of the rules.
    """

    name: str
    shape: Shape
    scale: float = 1.0

    @classmethod
    def named(cls, name: MlperfModel, *, scale: float = 1.0) -> MlperfWorkload:
        """The workload of the benchmark with this name."""
        return cls(name, shape_of(name), scale)

    @property
    def max_writers(self) -> int | None:
        """Count all processes of a closed run."""
        return self.shape.num_processes

    def inventory(self, index: int) -> Inventory:
        """The tensors of one process; the part of a tensor is the file in which it stands."""
        return Inventory(tuple(scale_tensors(self._tensors(index), self.scale)))

    def size(self, num_ranks: int) -> Size:
        """Bytes that the first processes save together."""
        sizes = [self.inventory(index).num_bytes for index in range(min(num_ranks, self.shape.num_processes))]
        return Size(len(sizes), sum(sizes), max(sizes))

    def describe(self, num_writers: int) -> str:
        """Say how much of the workload is written here."""
        shape = self.shape
        scale = "" if self.scale == 1 else f", scaled by {self.scale:g}"
        return (
            f"MLPerf Storage's checkpoint of {self.name} is of {shape.num_processes:,} processes. "
            f"{num_writers:,} of them write here: {bytes_text(self.size(num_writers).total_bytes)}{scale}."
        )

    def _tensors(self, index: int) -> Iterator[TensorSpec]:
        shape = self.shape
        grid = shape.tensor_parallel * shape.pipeline_parallel
        place = f"zero_pp_rank_{index // grid}_mp_rank_{index % grid}"
        if shape.zero_stage == 3 or index < grid:
            for layer in self._layers(index):
                yield from self._layer_tensors(layer, part=self._model_file(index, layer, place))
        share = shape.num_parameters // shape.num_processes
        lengths = (share, _EXTRA_HIDDEN_VALUES * shape.hidden_size) * _NUM_STATES
        for number, length in enumerate(lengths):
            yield TensorSpec(f"{place}_optim_states", str(number), (length,), "float32")

    def _model_file(self, index: int, layer: int, place: str) -> str:
        """Name the file of a layer: one per layer in a pipeline, else one for all layers."""
        shape = self.shape
        if shape.zero_stage == 3:
            return f"{place}_model_states"
        rank = index % (shape.tensor_parallel * shape.pipeline_parallel)
        return f"layer_{layer}-model_{rank}_model_states"

    def _layer_tensors(self, layer: int, *, part: str) -> Iterator[TensorSpec]:
        """Yield the tensors of a layer: of an embedding or a head, of the last norm, or of a transformer layer."""
        shape = self.shape
        sharding = shape.data_parallel if shape.zero_stage == 3 else 1
        if layer in (0, shape.num_layers + 1):
            lengths: tuple[int, ...] = (shape.hidden_size * shape.vocab_size // shape.tensor_parallel,)
        else:
            lengths = (shape.hidden_size,) if layer == shape.num_layers + 2 else shape.layer_lengths
        for number, length in enumerate(lengths):
            yield TensorSpec(part, f"{layer}-{number}", (length // sharding,), "float16")

    def _layers(self, index: int) -> range:
        """The layers of a process: 0 is the embedding, beyond the last are head and norm; early stages have one more.

        >>> [MlperfWorkload.named("405b")._layers(8 * stage) for stage in (0, 30, 31)]
        [range(0, 5), range(121, 124), range(124, 129)]
        """
        shape = self.shape
        stage = index // shape.tensor_parallel % shape.pipeline_parallel
        each, more = divmod(shape.num_layers, shape.pipeline_parallel)
        first = stage * each + min(stage, more) + 1
        end = first + each + (stage < more)
        is_last = stage == shape.pipeline_parallel - 1
        return range(0 if stage == 0 else first, shape.num_layers + 3 if is_last else end)
