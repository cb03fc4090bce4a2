"""Search for all degrees that cut a model over a number of GPUs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import ValidationError

from sizing.cluster import Cluster
from sizing.errors import explain
from sizing.layout.fit import check_fit
from sizing.layout.formats import CheckpointFormat, check_format
from sizing.layout.parallelism import Parallelism
from sizing.model import ResolvedModel
from sizing.state import Training

MAX_STAGES_OF_A_COUNT = 128
"""Max stages to try for a model of which only the number of parameters is known, and no layers."""

SearchedDegree = Literal["tensor", "pipeline", "data", "expert"]
SEARCHED_DEGREES: tuple[SearchedDegree, ...] = get_args(SearchedDegree)
KeptDegree = SearchedDegree | Literal["shard_group"]
"""Degree that a search may keep from the scenario. A shard group that the scenario leaves open is the framework's: all
data ranks.
"""

DEGREES = ("tensor", "pipeline", "virtual_pipeline", "context", "data", "expert")
"""Degrees of parallelism that make a layout."""


@dataclass(frozen=True, slots=True)
class DegreeSearch:
    """Search over tensor degrees on links, stages up to the layers, and expert degrees; the data degree is the rest.

    Tensor degrees divide the GPUs that links join; expert degrees divide the experts, unless `experts` are given.
    Fields of `given` that are not degrees stay as they are, as far as they fit the degrees, and so do the degrees named
    in `kept`. `zero_stages`: stages to try, empty if the format has none. `shard_groups`: try FSDP's shard groups if
    none is given. `expert_tensors`: expert-tensor degrees to try with expert degrees, None for the tensor degree; if
    empty, the given one stays.
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
        """List degrees that multiply to the GPUs, whether or not they fit the model."""
        takes = self.saved_as.takes
        tensors = divisors(self.num_linked_gpus) if "tensor" in takes else (1,)
        for tensor in self._degrees_to_try("tensor", tensors):
            for context in self.contexts:
                for pipeline in self._degrees_to_try("pipeline", self._stage_counts() if "pipeline" in takes else (1,)):
                    data, rest = divmod(self.num_gpus, tensor * context * pipeline)
                    if not rest and data in self._degrees_to_try("data", (data or 1,)):
                        degrees = {"tensor": tensor, "pipeline": pipeline, "context": context, "data": data}
                        yield from self._with_experts(degrees)

    def fitting(self, degrees: dict[str, int]) -> Parallelism:
        """Make a Parallelism of the degrees, with the rest as given.

        Raises InvalidInput where the model, its format or the rest of `given` refuses them.
        """
        fields = self.given.model_dump(exclude_unset=True)
        if degrees["pipeline"] == 1:
            fields.pop("virtual_pipeline", None)
        if degrees["pipeline"] != self.given.pipeline:
            for name in ("layers_per_stage", "first_stage_layers", "last_stage_layers"):
                fields.pop(name, None)
        try:
            parallelism = Parallelism.model_validate(fields | degrees)
        except ValidationError as error:
            raise explain(error, Parallelism).within("parallelism") from None
        check_fit(self.model, parallelism, Cluster(), self.training.framework)
        mode = self.saved_as.modes[0]
        check_format(self.saved_as, self.training, parallelism, mode=mode, files_per_rank=None, optimizer_sharding=None)
        return parallelism

    def _degrees_to_try(self, name: SearchedDegree, searched: Iterable[int]) -> Iterable[int]:
        return (getattr(self.given, name),) if name in self.kept else searched

    def _stage_counts(self) -> Iterator[int]:
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
        """Add each expert degree that divides the ranks which can hold whole experts, and 1 in any case."""
        num_experts, searched = self.model.num_experts, self.experts
        if searched is None:
            searched = divisors(num_experts) if num_experts and "expert" in self.saved_as.takes else (1,)
        for expert in self._degrees_to_try("expert", searched):
            if expert == 1 or most % expert == 0:
                yield from self._with_sharding(degrees | {"expert": expert})

    def _with_sharding(self, degrees: dict[str, int]) -> Iterator[dict[str, int]]:
        takes_group = "shard_group" in self.saved_as.takes
        if self.shard_groups and takes_group and self.given.shard_group is None:
            for group in divisors(degrees["context"] * degrees["data"]):
                yield degrees | {"shard_group": group}
            return
        if not self.zero_stages:
            yield degrees
        for stage in self.zero_stages:
            yield degrees | {"zero_stage": stage}


def degrees_text(parallelism: Parallelism, *, without: Collection[str] = ()) -> str:
    """Format the degrees that are used.

    >>> degrees_text(Parallelism(tensor=8, pipeline=64, data=6))
    'tensor 8, pipeline 64, data 6'
    >>> degrees_text(Parallelism(tensor=8, pipeline=64, data=6), without=["tensor"])
    'pipeline 64, data 6'
    """
    used = {name: value for name in DEGREES if (value := getattr(parallelism, name)) > 1}
    stated = {
        name: value
        for name in ("expert_tensor", "zero_stage", "shard_group")
        if (value := getattr(parallelism, name)) is not None
    }
    degrees = (used | stated).items()
    return ", ".join(degree_text(name, value) for name, value in degrees if name not in without) or "all degrees 1"


def degree_text(name: str, value: object) -> str:
    """Format a degree.

    >>> degree_text("shard_group", 8)
    'shard group 8'
    """
    return f"{name.replace('_', ' ')} {value}"


def divisors(number: int) -> list[int]:
    """List the whole numbers that divide a number.

    Source: definition.

    >>> divisors(8)
    [1, 2, 4, 8]
    """
    low = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*low, *(number // n for n in low)})
