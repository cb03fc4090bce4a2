"""Check whether degrees can cut a model; if not, name degrees that can."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from sizing.cluster import Cluster, ResolvedKind
from sizing.cluster.cluster import resolve_kinds
from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.layout.chunks import CountedEnds, LayerSplit, SpreadLayers
from sizing.layout.parallelism import Parallelism, layers_text, nearest_divisors_text
from sizing.model import ResolvedModel
from sizing.model.architecture import Architecture
from sizing.model.inventory import Inventory, with_heads_cut
from sizing.state.training import FrameworkName


def check_fit(model: ResolvedModel, parallelism: Parallelism, cluster: Cluster, framework: FrameworkName) -> None:
    """Refuse degrees that cannot cut the model in this framework, or that do not multiply to the given GPUs.

    Raises InvalidInput naming both fields and the nearest degrees that work.
    """
    _check_degrees(parallelism, cluster)
    for together in FRAMEWORKS[framework].degrees_together:
        if not together.warning and together.count(parallelism):
            blamed, *others = together.least
            lower = [f"{field} to {value - 1}" for field, value in together.least.items()]
            beside = " and ".join(f"{field} {getattr(parallelism, field)}" for field in others)
            raise InvalidInput.of(
                f"parallelism.{blamed}",
                f"must be at most {together.least[blamed] - 1} with {beside} in {FRAMEWORKS[framework].title}",
                value=getattr(parallelism, blamed),
                remedy=f"set {' or '.join(lower)}",
            )
    is_listed = model.architecture is None and model.composition is None
    if parallelism.places_tables and not (is_listed and any(g.role == "embedding" for g in model.inventory)):
        raise InvalidInput.of(
            "parallelism.table_sharding",
            "must be row-wise for a model without a list of embedding tables",
            value=parallelism.table_sharding,
            remedy="remove it, or list the tables in model.tensors",
        )
    if not model.num_layers:
        _check_count(parallelism, model)
    for field, degree, name, size in _divisions(parallelism, model):
        if size % degree:
            raise _does_not_divide(field, degree, name, size)
    _check_experts(parallelism, model, cluster)
    if model.architecture is not None:
        _check_heads(parallelism.tensor, model.architecture)
    else:
        _check_parts(parallelism.tensor, model.inventory, framework)
    _check_heads_once(parallelism.tensor, model, framework)
    if FRAMEWORKS[framework].key_value_heads == "cut":
        _check_rows(parallelism.tensor, model.inventory)
    if model.num_layers:
        _check_layers(parallelism, model.num_layers)


def _check_degrees(p: Parallelism, cluster: Cluster) -> None:
    """Refuse degrees that do not multiply to the GPUs, and virtual stages without a pipeline.

    Virtual stages interleave the work of several real ones; Megatron-LM, core/parallel_state.py, refuses a single one
    too.
    """
    expected = cluster.num_gpus
    if expected is not None and expected != p.num_gpus:
        raise InvalidInput.of(
            "cluster.num_gpus",
            f"must equal tensor x pipeline x context x data = {p.num_gpus}",
            value=expected,
            remedy="change a degree or num_gpus",
        )
    check_counts(resolve_kinds(cluster), p)
    if p.virtual_pipeline > 1 and p.pipeline == 1:
        raise InvalidInput.of(
            "parallelism.virtual_pipeline",
            "must be 1 with pipeline 1",
            value=p.virtual_pipeline,
            remedy="give a pipeline degree of 2 or more, or leave it out",
        )


def check_counts(kinds: tuple[ResolvedKind, ...], parallelism: Parallelism) -> None:
    """Refuse kinds of nodes with another number of GPUs than the degrees; kinds without counts are not checked."""
    counted, world = sum(kind.num_gpus for kind in kinds), parallelism.num_gpus
    if counted and counted != world:
        raise InvalidInput.of(
            "cluster.nodes",
            f"must have as many GPUs as tensor x pipeline x context x data = {world:,}",
            value=" + ".join(f"{kind.num_gpus:,} of {kind.name}" for kind in kinds),
            remedy="change a count or a degree",
        )


def _check_count(parallelism: Parallelism, model: ResolvedModel) -> None:
    """Refuse more model-parallel ranks than parameters, and stages without layers.

    A bare count is spread over all ranks; listed tensors can be spread over stages only if some are in layers.
    """
    if parallelism.model_parallel_size > model.num_parameters:
        raise InvalidInput.of(
            "parallelism",
            f"must have tensor x pipeline up to model.num_parameters {model.num_parameters}",
            value=parallelism.model_parallel_size,
            remedy="lower tensor or pipeline",
        )
    if parallelism.pipeline > 1 and not any(group.placement == "spread" for group in model.inventory):
        raise InvalidInput.of(
            "parallelism.pipeline",
            "must be 1 where no name of model.tensors counts layers",
            value=parallelism.pipeline,
            remedy="name the tensors of layers by their numbers, such as layers.{0..31}.mlp.up.weight",
        )


def _divisions(p: Parallelism, model: ResolvedModel) -> Iterator[tuple[str, int, str, int]]:
    """List field and degree, with the name and the size that the degree must divide."""
    a = model.architecture
    if a is not None:
        yield "tensor", p.tensor, "num_attention_heads", a.num_attention_heads
        if a.dense_layers:
            yield "tensor", p.tensor, "the feed-forward width", a.ffn_width
        if a.num_experts is not None:
            yield "expert_tensor", p.expert_tensor_degree, "expert_ffn_hidden_size", a.expert_width
        if a.num_experts is not None and a.shared_expert_width:
            yield "tensor", p.tensor, "the shared experts' width", a.shared_expert_width
    else:
        # Results of tensors that are cut by inputs are summed over ranks, so that each rank needs a share of its own.
        for group in model.inventory:
            if group.cut and group.placement == "layers":
                degree = p.expert_tensor_degree if group.experts else p.tensor
                field, name = "expert_tensor" if group.experts else "tensor", f"the parts of {group.name},"
                yield field, degree, name, group.pieces


def _check_experts(p: Parallelism, model: ResolvedModel, cluster: Cluster) -> None:
    """Refuse expert ranks that divide neither the experts nor the ranks that share them; remedies divide both.

    The ranks of a stage share the experts, or those of a shard group, in groups that cut one expert.
    """
    if model.num_experts is None and p.expert > 1:
        raise InvalidInput.of(
            "parallelism.expert",
            "must be 1 for a model without num_experts",
            value=p.expert,
            remedy="remove it, or give the model's experts",
        )
    cut, num_experts = p.expert_tensor_degree, math.gcd(*(group.experts for group in model.inventory))
    of_group = p.shard_group is not None and p.ranks_per_stage % (p.expert * cut) == 0
    ranks = p.tensor * p.shard_ranks if of_group else p.ranks_per_stage
    name = "tensor x shard_group" if of_group else "tensor x context x data"
    more = p.expert * cut // math.gcd(p.tensor * p.context, p.expert * cut)
    data = -(-p.data // more) * more
    other = f"shard_group to {p.num_replicas}" if of_group else f"data to {data}"
    if cluster.num_gpus is not None and not of_group:
        other += f" and cluster.num_gpus to {p.num_gpus // p.data * data}"
    if ranks % cut:
        fewer = f"expert_tensor to {math.gcd(cut, ranks // p.expert)} or " if ranks % p.expert == 0 else ""
        raise InvalidInput.of(
            "parallelism.expert_tensor", f"must divide {name} = {ranks}", value=cut, remedy=f"set {fewer}{other}"
        )
    valid = nearest_divisors_text(math.gcd(num_experts, ranks // cut), p.expert)
    if num_experts % p.expert:
        raise InvalidInput.of(
            "parallelism.expert", f"must divide num_experts {num_experts}", value=p.expert, remedy=valid
        )
    if ranks // cut % p.expert:
        raise InvalidInput.of(
            "parallelism.expert",
            f"must divide {name} / expert_tensor = {ranks // cut}",
            value=p.expert,
            remedy=f"{valid}, or set {other}",
        )


def _check_parts(tensor: int, inventory: Inventory, framework: FrameworkName) -> None:
    """Refuse tensor ranks that neither divide the parts of a tensor nor are a multiple of them.

    Where the framework divides groups of Mamba-2, they must divide these.
    """
    facts = FRAMEWORKS[framework]
    for group in inventory:
        if facts.state_space_groups == "divided" and group.name == "ssm.in.groups" and group.pieces % tensor:
            raise InvalidInput.of(
                "parallelism.tensor",
                f"must divide the groups of Mamba-2 ({group.pieces}), of which {facts.title} repeats none",
                value=tensor,
                remedy=nearest_divisors_text(group.pieces, tensor),
            )
        if group.placement == "layers" and not group.experts and group.pieces % tensor and tensor % group.pieces:
            raise InvalidInput.of(
                "parallelism.tensor",
                f"must divide the parts of {group.name}, {group.pieces}, or be a multiple of them",
                value=tensor,
                remedy=nearest_divisors_text(group.pieces, tensor),
            )


def _check_heads(tensor: int, a: Architecture) -> None:
    if tensor > a.vocab_size:
        raise InvalidInput.of(
            "parallelism.tensor",
            f"must be at most vocab_size {a.vocab_size}",
            value=tensor,
            remedy="lower the tensor degree",
        )
    if a.kv_heads % tensor and tensor % a.kv_heads:
        raise InvalidInput.of(
            "parallelism.tensor",
            f"must divide num_kv_heads {a.kv_heads} or be a multiple of it",
            value=tensor,
            remedy=nearest_divisors_text(a.kv_heads, tensor),
        )


def _check_heads_once(tensor: int, model: ResolvedModel, framework: FrameworkName) -> None:
    """Refuse more tensor ranks than heads of keys and values, if the framework cannot repeat heads.

    Without an architecture, the heads are the fewest parts of a matrix that is cut by outputs.
    """
    if FRAMEWORKS[framework].key_value_heads != "once":
        return
    if model.architecture is not None:
        has_them = any(group.name == "attention.key_value" for group in model.inventory)
        num_heads = model.architecture.kv_heads if has_them else None
    else:
        parts = (g.pieces for g in model.inventory if g.placement == "layers" and not g.experts and not g.cut)
        num_heads = min((pieces for pieces in parts if pieces > 1), default=None)
    if num_heads is not None and tensor > num_heads:
        raise InvalidInput.of(
            "parallelism.tensor",
            f"must be at most the {num_heads} heads of keys and values with framework {framework}, as DTensor would "
            "cut within a head",
            value=tensor,
            remedy="lower it",
        )


def _check_rows(tensor: int, inventory: Inventory) -> None:
    """Refuse tensor ranks that do not divide the rows of tensors equally, if ranks share heads.

    Tensors with one name are one matrix there.
    """
    for group in with_heads_cut(inventory):
        num_rows = group.count * group.pieces
        if group.placement == "layers" and not group.experts and group.pieces > 1 and num_rows % tensor:
            raise _does_not_divide("tensor", tensor, f"the rows of {group.name},", num_rows)


def _check_layers(p: Parallelism, num_layers: int) -> None:
    split = LayerSplit.of(p, num_layers)
    num_units = num_layers + sum(split.counted)
    if p.pipeline > num_units:
        raise InvalidInput.of(
            "parallelism.pipeline",
            f"must be at most {_units_text(num_layers, split.counted)}",
            value=p.pipeline,
            remedy=f"the nearest valid degree is {num_units}",
        )
    if p.layers_per_stage is not None and sum(p.layers_per_stage) != num_layers:
        raise InvalidInput.of(
            "parallelism.layers_per_stage",
            f"must add up to num_layers {num_layers}",
            value=sum(p.layers_per_stage),
            remedy="correct the layers of a stage",
        )
    if isinstance(split.units, SpreadLayers) and not split.units.adds_up:
        first, last = p.first_stage_layers, p.last_stage_layers
        both = " with last_stage_layers" if None not in (first, last) else ""
        raise InvalidInput.of(
            f"parallelism.{'first_stage_layers' if first is not None else 'last_stage_layers'}",
            f"must {'be at most' if split.units.num_even else 'add up to'} num_layers {num_layers}{both}",
            value=(first or 0) + (last or 0),
            remedy="correct the layers of the stage",
        )
    if not split.is_even and p.states_layers:
        raise InvalidInput.of(
            "parallelism.virtual_pipeline",
            "must divide the layers of every stage, the first, the last and those between",
            value=p.virtual_pipeline,
            remedy="change the layers of a stage, give layers_per_stage for each of "
            f"{p.num_model_chunks} chunks, or use embedding_counts_as_layer and loss_counts_as_layer instead",
        )
    if not split.is_even:
        raise InvalidInput.of(
            "parallelism.virtual_pipeline",
            f"must cut {_units_text(num_layers, split.counted)} over pipeline {p.pipeline} into equal chunks",
            value=p.virtual_pipeline,
            remedy=_equal_chunks_remedy(p, num_layers, split.counted),
        )


def _units_text(num_layers: int, counted: CountedEnds) -> str:
    """Name the units that are spread over the stages.

    >>> _units_text(126, CountedEnds(embedding=True))
    'num_layers 126 + embedding'
    """
    names = (name for name, is_counted in counted._asdict().items() if is_counted)
    return " + ".join((f"num_layers {num_layers}", *names))


def _equal_chunks_remedy(p: Parallelism, num_layers: int, counted: CountedEnds) -> str:
    """Say how to make the chunks equal: other units that count as layers, else other degrees."""
    ends = "embedding_counts_as_layer", "loss_counts_as_layer"
    both = " and ".join(ends)
    others = {0: f"set {both} to false", 1: f"set one of {both}", 2: f"set {both}"}
    unequal = f"layers_per_stage {layers_text(_nearly_even_chunks(p, num_layers))}"
    for extra, remedy in others.items():
        if extra != sum(counted) and (num_layers + extra) % p.num_model_chunks == 0:
            return f"{remedy}, or give {unequal}" if all(counted) else remedy
    num_units = num_layers + sum(counted)
    if num_units % p.pipeline == 0:
        return nearest_divisors_text(num_units // p.pipeline, p.virtual_pipeline)
    if (num_layers + len(CountedEnds._fields)) % p.pipeline == 0:
        num_counted = num_layers + len(CountedEnds._fields)
        return f"with {both} {nearest_divisors_text(num_counted // p.pipeline, p.virtual_pipeline)}"
    return f"give the layers of each chunk: {unequal}"


def _nearly_even_chunks(p: Parallelism, num_layers: int) -> list[int]:
    """List the layers of chunks that differ by one at most, where embedding and loss stand for a layer each.

    Source: as Megatron-LM, core/transformer/pipeline_parallel_layer_layout.py, lets a layout say; its published layout
    of DeepSeek-V3's 61 layers, "Et*3|(tt|)*29,m|L" for 32 chunks, likewise gives the ends less.

    >>> _nearly_even_chunks(Parallelism(pipeline=2, virtual_pipeline=2), 7)
    [2, 2, 2, 1]
    """
    ends = CountedEnds(embedding=True, loss=True) if num_layers >= p.num_model_chunks else CountedEnds()
    units = SpreadLayers(num_layers + sum(ends), p.num_model_chunks)
    layers = [past - start for start, past in pairwise(map(units.before, range(p.num_model_chunks + 1)))]
    layers[0] -= ends.embedding
    layers[-1] -= ends.loss
    return layers


def _does_not_divide(field: str, degree: int, name: str, size: int) -> InvalidInput:
    return InvalidInput.of(
        f"parallelism.{field}",
        f"must divide {name} {size}",
        value=degree,
        remedy=nearest_divisors_text(size, degree),
    )
