"""Whether a model can be cut by the degrees asked for; where not, which degrees can."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.cluster import Cluster, ResolvedKind
from sizing.cluster.cluster import resolve_kinds
from sizing.errors import InvalidInput
from sizing.layout.chunks import Counted, LayerSplit, Spread
from sizing.layout.framework_defaults import KEEPS_HEADS_ONCE
from sizing.layout.parallelism import Parallelism
from sizing.model import ResolvedModel
from sizing.model.architecture import Architecture
from sizing.model.inventory import Inventory
from sizing.state.training import Framework


def check_fit(model: ResolvedModel, parallelism: Parallelism, cluster: Cluster, framework: Framework) -> None:
    """Refuse degrees by which the model cannot be cut so by a framework, or that do not multiply to the GPUs given.

    Raises InvalidInput naming both fields and the nearest degrees that work.
    """
    _check_degrees(parallelism, cluster)
    if not model.num_layers:
        _check_count(parallelism, model)
    for field, degree, name, size in _divisions(parallelism, model):
        if size % degree:
            raise _does_not_divide(field, degree, name, size)
    if model.architecture is not None:
        _check_heads(parallelism.tensor, model.architecture)
    else:
        _check_parts(parallelism.tensor, model.inventory)
    _check_heads_once(parallelism.tensor, model, framework)
    if model.num_layers:
        _check_layers(parallelism, model.num_layers)


def _check_degrees(p: Parallelism, cluster: Cluster) -> None:
    """Virtual stages interleave the work of several real ones; Megatron-LM, core/parallel_state.py, refuses one too."""
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
    """Refuse kinds of nodes that have not as many GPUs as the degrees; kinds that are not counted may have any."""
    counted, world = sum(kind.num_gpus for kind in kinds), parallelism.num_gpus
    if counted and counted != world:
        raise InvalidInput.of(
            "cluster.nodes",
            f"must have as many GPUs as tensor x pipeline x context x data = {world:,}",
            value=" + ".join(f"{kind.num_gpus:,} of {kind.name}" for kind in kinds),
            remedy="change a count or a degree",
        )


def _check_count(parallelism: Parallelism, model: ResolvedModel) -> None:
    """A count is spread over all ranks; tensors of which none stands in a layer are not spread over stages."""
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
    """Field, degree, and the name and size that it must divide."""
    if model.architecture is not None:
        yield from _widths(p, model.architecture)
    else:
        yield from _parts(p, model.inventory)
    if model.num_experts is not None:
        for num_experts in {group.experts for group in model.inventory if group.experts}:
            yield "expert", p.expert, "num_experts", num_experts
    elif p.expert > 1:
        raise _no_experts(p.expert)


def _widths(p: Parallelism, a: Architecture) -> Iterator[tuple[str, int, str, int]]:
    yield "tensor", p.tensor, "num_attention_heads", a.num_attention_heads
    if a.dense_layers:
        yield "tensor", p.tensor, "the feed-forward width", a.ffn_width
    if a.num_experts is None:
        return
    yield "expert_tensor", p.expert_tensor_degree, "expert_ffn_hidden_size", a.expert_width
    if a.shared_expert_width:
        yield "tensor", p.tensor, "the shared experts' width", a.shared_expert_width


def _parts(p: Parallelism, inventory: Inventory) -> Iterator[tuple[str, int, str, int]]:
    """What is cut by its inputs is summed over the ranks, so that each must hold a share of its own."""
    for group in inventory:
        if group.cut and group.placement == "layers":
            degree = p.expert_tensor_degree if group.experts else p.tensor
            yield "expert_tensor" if group.experts else "tensor", degree, f"the parts of {group.name},", group.pieces


def _check_parts(tensor: int, inventory: Inventory) -> None:
    """Of other tensors several ranks may hold the same part, if all parts are held by as many."""
    for group in inventory:
        if group.placement == "layers" and not group.experts and group.pieces % tensor and tensor % group.pieces:
            raise InvalidInput.of(
                "parallelism.tensor",
                f"must divide the parts of {group.name}, {group.pieces}, or be a multiple of them",
                value=tensor,
                remedy=f"the nearest valid degrees are {_nearest_divisors(group.pieces, tensor)}",
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
            remedy=f"the nearest valid degrees are {_nearest_divisors(a.kv_heads, tensor)}",
        )


def _check_heads_once(tensor: int, model: ResolvedModel, framework: Framework) -> None:
    """Where ranks cannot repeat heads of keys and values, each must have one of its own."""
    num_heads = _kv_heads(model) if framework in KEEPS_HEADS_ONCE else None
    if num_heads is not None and tensor > num_heads:
        raise InvalidInput.of(
            "parallelism.tensor",
            f"must be at most the {num_heads} heads of keys and values with framework {framework}, as DTensor would "
            "cut within a head",
            value=tensor,
            remedy="lower it",
        )


def _kv_heads(model: ResolvedModel) -> int | None:
    """Heads of keys and values: as the architecture says, else the fewest parts of a matrix that is cut by outputs."""
    if model.architecture is not None:
        has_them = any(group.name == "attention.key_value" for group in model.inventory)
        return model.architecture.kv_heads if has_them else None
    parts = (g.pieces for g in model.inventory if g.placement == "layers" and not g.experts and not g.cut)
    return min((pieces for pieces in parts if pieces > 1), default=None)


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
    if isinstance(split.dealt, Spread) and not split.dealt.adds_up:
        raise _ends_do_not_add_up(p, num_layers, split.dealt)
    if not split.is_even:
        raise _unequal_ends(p) if p.states_layers else _unequal_chunks(p, num_layers, split.counted)


def _units_text(num_layers: int, counted: Counted) -> str:
    """What is dealt over the stages, in words.

    >>> _units_text(126, Counted(embedding=True))
    'num_layers 126 + embedding'
    """
    names = (name for name, is_counted in counted._asdict().items() if is_counted)
    return " + ".join((f"num_layers {num_layers}", *names))


def _ends_do_not_add_up(p: Parallelism, num_layers: int, dealt: Spread) -> InvalidInput:
    field = "first_stage_layers" if p.first_stage_layers is not None else "last_stage_layers"
    both = " with last_stage_layers" if None not in (p.first_stage_layers, p.last_stage_layers) else ""
    rule = "be at most" if dealt.num_even else "add up to"
    return InvalidInput.of(
        f"parallelism.{field}",
        f"must {rule} num_layers {num_layers}{both}",
        value=(p.first_stage_layers or 0) + (p.last_stage_layers or 0),
        remedy="correct the layers of the stage",
    )


def _unequal_ends(p: Parallelism) -> InvalidInput:
    return InvalidInput.of(
        "parallelism.virtual_pipeline",
        "must divide the layers of every stage, the first, the last and those between",
        value=p.virtual_pipeline,
        remedy="change the layers of a stage, give layers_per_stage for each of "
        f"{p.num_model_chunks} chunks, or use embedding_counts_as_layer and loss_counts_as_layer instead",
    )


def _unequal_chunks(p: Parallelism, num_layers: int, counted: Counted) -> InvalidInput:
    return InvalidInput.of(
        "parallelism.virtual_pipeline",
        f"must cut {_units_text(num_layers, counted)} over pipeline {p.pipeline} into equal chunks",
        value=p.virtual_pipeline,
        remedy=_equal_chunks(p, num_layers, counted),
    )


def _equal_chunks(p: Parallelism, num_layers: int, counted: Counted) -> str:
    """What makes the chunks equal: another count of layers, else other degrees."""
    both = "embedding_counts_as_layer and loss_counts_as_layer"
    others = {0: f"set neither {both}", 1: f"set one of {both}", 2: f"set {both}"}
    for extra, remedy in others.items():
        if extra != sum(counted) and (num_layers + extra) % p.num_model_chunks == 0:
            return remedy
    num_units = num_layers + sum(counted)
    if num_units % p.pipeline == 0:
        nearest = _nearest_divisors(num_units // p.pipeline, p.virtual_pipeline)
        return f"the nearest valid degrees are {nearest}"
    if (num_layers + len(Counted._fields)) % p.pipeline == 0:
        nearest = _nearest_divisors((num_layers + len(Counted._fields)) // p.pipeline, p.virtual_pipeline)
        return f"with {both} the nearest valid degrees are {nearest}"
    return "choose a pipeline degree that divides num_layers"


def _does_not_divide(field: str, degree: int, name: str, size: int) -> InvalidInput:
    return InvalidInput.of(
        f"parallelism.{field}",
        f"must divide {name} {size}",
        value=degree,
        remedy=f"the nearest valid degrees are {_nearest_divisors(size, degree)}",
    )


def _no_experts(degree: int) -> InvalidInput:
    return InvalidInput.of(
        "parallelism.expert",
        "must be 1 for a model without num_experts",
        value=degree,
        remedy="remove it, or give the model's experts",
    )


def _nearest_divisors(size: int, wanted: int) -> str:
    divisors = [n for n in range(1, min(size, 2 * wanted) + 1) if size % n == 0]
    nearest = sorted(divisors, key=lambda n: abs(n - wanted))[:2]
    return " and ".join(str(n) for n in sorted(nearest))
