"""All degrees by which a model can be cut over a number of GPUs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import ValidationError

from sizing.cluster import Cluster
from sizing.errors import explain
from sizing.layout.fit import check_fit
from sizing.layout.formats import CheckpointFormat, check_format
from sizing.layout.parallelism import Parallelism
from sizing.model import ResolvedModel
from sizing.state import Training

MAX_STAGES_OF_A_COUNT = 128
"""Stages that are tried where only a number of parameters is known, and with it no layers."""

SearchedDegree = Literal["tensor", "pipeline", "data", "expert"]
SEARCHED_DEGREES: tuple[SearchedDegree, ...] = get_args(SearchedDegree)
KeptDegree = SearchedDegree | Literal["shard_group"]
"""What may stay of a scenario. A shard group that it leaves open is the framework's: all data ranks."""

_DEGREES = ("tensor", "pipeline", "virtual_pipeline", "context", "data", "expert")

_MAX_ZERO_STAGE_OF_A_PIPELINE = 1
"""DeepSpeed, runtime/pipe/engine.py: ZeRO 2 and 3 are incompatible with pipeline parallelism."""


@dataclass(frozen=True, slots=True)
class DegreeSearch:
    """What is tried: tensor degrees over links, stages up to the layers, expert degrees, and what is left as data.

    Tensor degrees divide the GPUs that links join, expert degrees the experts, unless `experts` are given.
    Of `given` the fields that are not degrees stay as they are, as far as they go with the degrees; so do the degrees
    named in `kept`.
    `zero_stages` is empty where the format has none; `shard_groups`: FSDP's are tried where none is given;
    `expert_tensors`: those that are tried with expert degrees, None for the tensor degree; empty: the given one.
    """

    model: ResolvedModel
    training: Training
    saved_as: CheckpointFormat
    given: Parallelism
    num_gpus: int
    num_linked_gpus: int
    contexts: Sequence[int]
    experts: Sequence[int] | None = None
    kept: Collection[SearchedDegree] = ()
    zero_stages: Sequence[int] = ()
    shard_groups: bool = False
    expert_tensors: Sequence[int | None] = ()
    even_stages: bool = False

    def combinations(self) -> Iterator[dict[str, int]]:
        """Degrees that multiply to the GPUs, whether or not they fit the model."""
        takes = self.saved_as.takes
        tensors = divisors(self.num_linked_gpus) if "tensor" in takes else (1,)
        for tensor in self._kept_or("tensor", tensors):
            for context in self.contexts:
                for pipeline in self._kept_or("pipeline", self._stages() if "pipeline" in takes else (1,)):
                    data, rest = divmod(self.num_gpus, tensor * context * pipeline)
                    if not rest and data in self._kept_or("data", (data or 1,)):
                        degrees = {"tensor": tensor, "pipeline": pipeline, "context": context, "data": data}
                        yield from self._with_experts(degrees)

    def fitting(self, degrees: dict[str, int]) -> Parallelism:
        """The degrees as a Parallelism.

        Raises InvalidInput where the model, its format or the rest of `given` refuses them.
        """
        try:
            parallelism = Parallelism.model_validate(self._kept(degrees) | degrees)
        except ValidationError as error:
            raise explain(error, Parallelism).within("parallelism") from None
        check_fit(self.model, parallelism, Cluster(), self.training.framework)
        mode = self.saved_as.modes[0]
        check_format(self.saved_as, self.training, parallelism, mode=mode, files_per_rank=None, optimizer_sharding=None)
        return parallelism

    def _kept_or(self, name: SearchedDegree, searched: Iterable[int]) -> Iterable[int]:
        return (getattr(self.given, name),) if name in self.kept else searched

    def _kept(self, degrees: dict[str, int]) -> dict[str, Any]:
        kept = self.given.model_dump(exclude_unset=True)
        if degrees["pipeline"] == 1:
            kept.pop("virtual_pipeline", None)
        if degrees["pipeline"] != self.given.pipeline:
            for name in ("layers_per_stage", "first_stage_layers", "last_stage_layers"):
                kept.pop(name, None)
        return kept

    def _stages(self) -> Iterator[int]:
        num_layers = self.model.num_layers or MAX_STAGES_OF_A_COUNT
        num_units = num_layers + bool(self.given.embedding_counts_as_layer) + bool(self.given.loss_counts_as_layer)
        return (p for p in range(1, num_layers + 1) if not self.even_stages or num_units % p == 0)

    def _with_experts(self, degrees: dict[str, int]) -> Iterator[dict[str, int]]:
        per_stage = degrees["tensor"] * degrees["context"] * degrees["data"]
        if not self.expert_tensors:
            degree = self.given.expert_tensor or degrees["tensor"]
            yield from self._with_expert_degrees(degrees, per_stage // degree if per_stage % degree == 0 else 1)
        for degree in dict.fromkeys(each or degrees["tensor"] for each in self.expert_tensors):
            if degrees["tensor"] % degree == 0:
                cut = {} if degree == degrees["tensor"] else {"expert_tensor": degree}
                yield from self._with_expert_degrees(degrees | cut, per_stage // degree)

    def _with_expert_degrees(self, degrees: dict[str, int], most: int) -> Iterator[dict[str, int]]:
        """Those that divide the ranks of a stage over which whole experts can be dealt; 1 in any case."""
        for expert in self._kept_or("expert", self._expert_degrees()):
            if expert == 1 or most % expert == 0:
                yield from self._with_sharding(degrees | {"expert": expert})

    def _expert_degrees(self) -> Sequence[int]:
        if self.experts is not None:
            return self.experts
        num_experts = self.model.num_experts
        return divisors(num_experts) if num_experts and "expert" in self.saved_as.takes else (1,)

    def _with_sharding(self, degrees: dict[str, int]) -> Iterator[dict[str, int]]:
        takes_group = "shard_group" in self.saved_as.takes
        if self.shard_groups and takes_group and self.given.shard_group is None:
            for group in divisors(degrees["context"] * degrees["data"]):
                yield degrees | {"shard_group": group}
            return
        if not self.zero_stages:
            yield degrees
        for stage in self.zero_stages:
            if degrees["pipeline"] == 1 or stage <= _MAX_ZERO_STAGE_OF_A_PIPELINE:
                yield degrees | {"zero_stage": stage}


def degrees_text(parallelism: Parallelism) -> str:
    """The degrees that are used, in words.

    >>> degrees_text(Parallelism(tensor=8, pipeline=64, data=6))
    'tensor 8, pipeline 64, data 6'
    """
    used = [f"{name} {getattr(parallelism, name)}" for name in _DEGREES if getattr(parallelism, name) > 1]
    given = [
        f"{name.replace('_', ' ')} {value}"
        for name in ("expert_tensor", "zero_stage", "shard_group")
        if (value := getattr(parallelism, name)) is not None
    ]
    return ", ".join([*used, *given]) or "all degrees 1"


def divisors(number: int) -> list[int]:
    """Whole numbers that divide it.

    Source: definition.

    >>> divisors(8)
    [1, 2, 4, 8]
    """
    low = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*low, *(number // n for n in low)})
