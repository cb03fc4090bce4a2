"""The `parallelism` block of a Scenario: the number of ranks along each axis."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, groupby, islice, repeat
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BeforeValidator, Field, model_validator

from sizing.cluster.cluster import MAX_GPUS
from sizing.errors import broken_rule
from sizing.spelling import AnySpelling
from sizing.strict_model import InputModel
from sizing.units import OrText

Degree = Annotated[int, Field(ge=1, le=1_000_000)]
TensorDegree = Annotated[int, Field(ge=1, le=4096)]


Axis = Literal["tensor", "context", "expert", "data", "pipeline"]
RankOrder = tuple[Axis, Axis, Axis, Axis, Axis]
TableSharding = Literal["row-wise", "table-wise", "column-wise"]
"""Ways to lay embedding tables over ranks, named as TorchRec's ShardingType names them. `row-wise`: every rank has
some rows of each. `table-wise`: each stands whole on one rank. `column-wise`: each block of columns stands on one rank.
"""

DEFAULT_RANK_ORDER: RankOrder = ("tensor", "context", "expert", "data", "pipeline")
"""Order of Megatron-LM, tp-cp-ep-dp-pp: core/parallel_state.py."""


class Ranks(NamedTuple):
    """Number of ranks, for dense tensors and for routed experts."""

    dense: int = 1
    expert: int = 1


MAX_PLACES = 1_024
"""Stages or chunks whose layers may be listed."""
_RUN = re.compile(r"(?P<num>[0-9]{1,4})\s*x\s*(?P<layers>[0-9]{1,9})")
"""Equal places of a pipeline, as text: 14x4 is fourteen times four layers."""


def _split_layers(layers: object) -> object:
    """Split layers given as text, each run of equal ones in full.

    >>> _split_layers("3,2x4,2")
    ['3', '4', '4', '2']
    """
    if not isinstance(layers, str):
        return layers
    runs = ((text.strip(), _RUN.fullmatch(text.strip())) for text in layers.split(","))
    each = (repeat(run["layers"], int(run["num"])) if run else (text,) for text, run in runs)
    return list(islice(chain.from_iterable(each), MAX_PLACES + 1))


_Layers = Annotated[
    tuple[Annotated[int, Field(ge=0, le=10_000)], ...], Field(max_length=MAX_PLACES), BeforeValidator(_split_layers)
]
"""Input: layers of each stage or chunk."""


def layers_text(layers: Iterable[int]) -> str:
    """Write the layers of stages or chunks as `layers_per_stage` reads them.

    >>> layers_text([3, 4, 4, 2])
    '3,2x4,2'
    """
    runs = [(number, len(list(equal))) for number, equal in groupby(layers)]
    return ",".join(f"{num}x{number}" if num > 1 else str(number) for number, num in runs)


def nearest_divisors_text(size: int, wanted: int) -> str:
    """Name the divisors of a size next to a degree that is none.

    >>> nearest_divisors_text(12, 5), nearest_divisors_text(25, 2)
    ('the nearest valid degrees are 4 and 6', 'the nearest valid degree is 1')
    """
    divisors = [n for n in range(1, min(size, 2 * wanted) + 1) if size % n == 0]
    nearest = [str(n) for n in sorted(sorted(divisors, key=lambda n: abs(n - wanted))[:2])]
    return f"the nearest valid {'degree is' if len(nearest) == 1 else 'degrees are'} {' and '.join(nearest)}"


class Parallelism(InputModel):
    """Degrees of parallelism. World size = tensor x pipeline x context x data."""

    tensor: TensorDegree = Field(
        1,
        description="Tensor-parallel degree: ranks that share every layer. In papers t (Shoeybi et al. 2019). "
        "Default: 1, layers are not cut.",
    )
    pipeline: Degree = Field(
        1,
        description="Pipeline-parallel degree: stages that share the layers. In papers p (Narayanan et al. 2021). "
        "Default: 1, no pipeline.",
    )
    virtual_pipeline: Annotated[int, Field(ge=1, le=1000)] = Field(
        1, description="Model chunks that each stage holds, v in the papers. Default: 1, no interleaving."
    )
    context: Degree = Field(
        1,
        description="Context-parallel degree: ranks that share each sequence. All of them hold the same weights. "
        "Default: 1, sequences are not cut.",
    )
    data: Degree = Field(
        1,
        description="Data-parallel degree: ranks that share the batch. "
        "In papers d; the state is replicated or sharded over them. Default: 1, one replica.",
    )
    expert: Degree = Field(
        1,
        description="Expert-parallel degree: ranks that share the routed experts. "
        "They are carved out of tensor x context x data. Default: 1, every rank holds all experts.",
    )
    expert_tensor: TensorDegree | None = Field(
        None, description="Tensor-parallel degree of one expert. Default: the tensor degree."
    )
    zero_stage: Annotated[int, Field(ge=0, le=3)] | None = Field(
        None,
        description="ZeRO stage of DeepSpeed. "
        "Stage 1 shards the optimizer, 2 also gradients, 3 also weights, 0 nothing. Default: 1.",
    )
    shard_group: Degree | None = Field(
        None,
        description="FSDP ranks that shard one copy of the state. Fewer than all is HSDP. "
        "Default: all of data x context.",
    )
    table_sharding: AnySpelling[TableSharding] | None = Field(
        None,
        description="How the embedding tables of model.tensors lie over FSDP ranks, by TorchRec's names. "
        "With row-wise every rank has some rows of each, with table-wise each stands whole on one rank, with "
        "column-wise it lies in blocks of at least 128 columns, each on one rank. Default: row-wise.",
    )
    rank_order: RankOrder = Field(
        DEFAULT_RANK_ORDER,
        description="Axes by which ranks are numbered, the fastest first. Default: Megatron-LM's tp-cp-ep-dp-pp.",
    )
    layers_per_stage: OrText[_Layers] | None = Field(
        None,
        description="Layers of each pipeline stage, the first stage first, as a list or as text: 3,14x4,2 is 3, "
        "fourteen times 4, and 2. With virtual_pipeline it may list each model chunk instead, in the model's order. "
        "Default: spread evenly, the first stages take what is left over.",
    )
    first_stage_layers: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None,
        description="Layers of the first pipeline stage. The others share the rest evenly. Default: as many as they.",
    )
    last_stage_layers: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None,
        description="Layers of the last pipeline stage. The others share the rest evenly. Default: as many as they.",
    )
    embedding_counts_as_layer: bool | None = Field(
        None,
        description="Whether the embedding counts as a layer when layers are dealt over stages, "
        "so that the first stage has one less. Default: no, unless the chunks of virtual_pipeline come out equal "
        "only with embedding and loss as layers.",
    )
    loss_counts_as_layer: bool | None = Field(
        None,
        description="Whether head and loss count as a layer when layers are dealt over stages, "
        "so that the last stage has one less. Default: no, unless the chunks of virtual_pipeline come out equal "
        "only with embedding and loss as layers.",
    )

    @model_validator(mode="after")
    def _degrees_agree(self) -> Self:
        if self.num_gpus > MAX_GPUS:
            raise broken_rule(
                f"has a world size (product of the degrees) of {self.num_gpus:,} GPUs, more than {MAX_GPUS:,}",
                "lower a degree",
            )
        if len(set(self.rank_order)) != len(self.rank_order):
            raise broken_rule("has a rank_order that repeats an axis", "name each axis once")
        if self.shard_group is not None and self.num_replicas % self.shard_group:
            raise broken_rule(
                f"has shard_group {self.shard_group}, which does not divide data x context = {self.num_replicas}",
                nearest_divisors_text(self.num_replicas, self.shard_group),
            )
        return self

    @model_validator(mode="after")
    def _layers_are_stated_once(self) -> Self:
        given, ends = self.layers_per_stage, (self.first_stage_layers, self.last_stage_layers)
        if given is not None and len(given) not in (self.pipeline, self.num_model_chunks):
            raise broken_rule(
                f"has layers_per_stage for {len(given)} stages and pipeline {self.pipeline}",
                "give one number of layers per stage",
            )
        if self.pipeline == 1 and ends != (None, None):
            raise broken_rule("has first_stage_layers or last_stage_layers and pipeline 1", "remove them")
        ways = {
            "layers_per_stage": given is not None,
            "first_stage_layers or last_stage_layers": ends != (None, None),
            "embedding_counts_as_layer or loss_counts_as_layer": self.embedding_counts_as_layer
            or self.loss_counts_as_layer,
        }
        stated = [way for way, is_stated in ways.items() if is_stated]
        if len(stated) > 1:
            raise broken_rule(f"has {' and also '.join(stated)}, which all say what stages hold", "give one of them")
        return self

    @property
    def places_tables(self) -> bool:
        """Whether embedding tables, or blocks of their columns, each stand on one rank."""
        return self.table_sharding in ("table-wise", "column-wise")

    @property
    def num_model_chunks(self) -> int:
        """Number of chunks of the model: pipeline x virtual_pipeline."""
        return self.pipeline * self.virtual_pipeline

    @property
    def states_layers(self) -> bool:
        """Whether the layers of any stage are given."""
        return (self.layers_per_stage, self.first_stage_layers, self.last_stage_layers) != (None, None, None)

    @property
    def model_parallel_size(self) -> int:
        """Number of ranks that together hold one replica of the dense tensors."""
        return self.tensor * self.pipeline

    @property
    def num_replicas(self) -> int:
        """Number of ranks that share or repeat the same part of the dense tensors: data x context."""
        return self.data * self.context

    @property
    def ranks_per_stage(self) -> int:
        """Number of ranks of one pipeline stage: tensor x context x data."""
        return self.tensor * self.num_replicas

    @property
    def expert_tensor_degree(self) -> int:
        """Number of ranks that cut one expert."""
        return self.tensor if self.expert_tensor is None else self.expert_tensor

    @property
    def num_expert_replicas(self) -> int:
        """Number of ranks that share or repeat the same part of the experts: ranks of a stage / (E x ET)."""
        return self.ranks_per_stage // (self.expert * self.expert_tensor_degree)

    @property
    def replicas(self) -> Ranks:
        """Number of ranks that share or repeat the same tensors."""
        return Ranks(self.num_replicas, self.num_expert_replicas)

    @property
    def shard_ranks(self) -> int:
        """Number of FSDP ranks that shard one copy of the state."""
        return self.shard_group or self.num_replicas

    @property
    def strides(self) -> dict[Axis, int]:
        """Difference between the numbers of neighbouring ranks along each axis.

        Experts use ranks of context and data, so they have no stride of their own.
        """
        sizes = {"tensor": self.tensor, "context": self.context, "data": self.data, "pipeline": self.pipeline}
        strides: dict[Axis, int] = {}
        stride = 1
        for axis in self.rank_order:
            if axis != "expert":
                strides[axis] = stride
                stride *= sizes[axis]
        return strides

    def rank_of(self, *, tensor: int, replica: int, stage: int) -> int:
        """Return the number of the rank with tensor rank `tensor` of a stage in a replica (context fastest).

        >>> Parallelism(tensor=8, pipeline=64, data=6).rank_of(tensor=1, replica=2, stage=3)
        161
        """
        strides = self.strides
        return (
            tensor * strides["tensor"]
            + replica % self.context * strides["context"]
            + replica // self.context * strides["data"]
            + stage * strides["pipeline"]
        )

    @property
    def num_gpus(self) -> int:
        """Number of GPUs: tensor x pipeline x context x data."""
        return self.pipeline * self.ranks_per_stage
