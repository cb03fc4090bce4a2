"""Rank classes, replication and placement equal a brute-force walk over every rank."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.holders import holder_classes
from sizing.layout.parallelism import DEFAULT_RANK_ORDER, Axis
from sizing.layout.placement import (
    WriterPlacement,
    max_node_bytes,
    nodes_of_writers,
    num_nodes_of_copies,
    place_writers,
)
from sizing.layout.stages import stage_spans
from sizing.model.inventory import TensorGroup, inventory_of, with_heads_cut
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from tests.examples import examples
from tests.sizing.layout.brute_force import parameters_by_rank, writing_nodes

UNEVEN = {
    "family": "llama",
    "hidden_size": 48,
    "num_layers": 7,
    "num_attention_heads": 12,
    "num_kv_heads": 3,
    "vocab_size": 101,
    "ffn_hidden_size": 36,
    "tied_embeddings": True,
}


def report_of(model: dict[str, Any], **parallelism: Any) -> SizingReport:
    """In Megatron's classic format, whose files show what a rank holds."""
    return answer({"model": model, "parallelism": parallelism, "checkpoint": {"format": "megatron"}})


COUNTED = ("embedding_counts_as_layer", "loss_counts_as_layer")


@st.composite
def small_worlds(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    tensor, kv_factor = draw(st.sampled_from([1, 2, 3, 4, 6])), draw(st.sampled_from([1, 2, 3]))
    kv_heads = draw(st.sampled_from([n for n in (1, 2, 3, 4, 6, 12) if n % tensor == 0 or tensor % n == 0]))
    heads = 12 * kv_factor
    family = draw(st.sampled_from(["gpt2", "llama", "qwen2", "qwen3", "bloom", "falcon"]))
    num_layers = draw(st.integers(1, 9))
    architecture = {
        "family": family,
        "hidden_size": heads * draw(st.sampled_from([12, 24])),
        "num_layers": num_layers,
        "num_attention_heads": heads,
        "num_kv_heads": kv_heads,
        "vocab_size": draw(st.integers(6, 40)),
        "ffn_hidden_size": 12 * draw(st.integers(1, 4)),
        "tied_embeddings": draw(st.booleans()),
    }
    pipeline = draw(st.integers(1, num_layers))
    parallelism: dict[str, Any] = {
        "tensor": tensor,
        "pipeline": pipeline,
        "data": draw(st.integers(1, 5)),
        "context": draw(st.integers(1, 3)),
    }
    chunked = draw(st.none() | st.fixed_dictionaries({name: st.booleans() for name in COUNTED}))
    if chunked is not None and pipeline > 1:
        virtual, per_chunk = draw(st.integers(2, 3)), draw(st.integers(1, 2))
        architecture["num_layers"] = pipeline * virtual * per_chunk - sum(chunked.values())
        parallelism |= chunked | {"virtual_pipeline": virtual}
    elif draw(st.booleans()):
        cuts = sorted(draw(st.lists(st.integers(0, num_layers), min_size=pipeline - 1, max_size=pipeline - 1)))
        edges = [0, *cuts, num_layers]
        parallelism["layers_per_stage"] = [b - a for a, b in pairwise(edges)]
    return architecture, parallelism


BYTES_PER_PARAMETER = 14
PIPELINE_BEFORE_DATA: tuple[Axis, ...] = ("tensor", "context", "expert", "pipeline", "data")


@given(small_worlds())
@examples(150)
def test_classes_write_what_every_rank_holds_one_by_one(world: tuple[dict[str, Any], dict[str, Any]]) -> None:
    architecture, degrees = world
    scenario = scenario_from(
        {"model": {"architecture": architecture}, "parallelism": degrees, "checkpoint": {"format": "megatron"}}
    )
    assert scenario.model.architecture is not None
    inventory = with_heads_cut(inventory_of(scenario.model.architecture))
    expected = parameters_by_rank(inventory, scenario.parallelism, architecture["num_layers"])
    classes = answer(scenario).layout.rank_classes
    found = sorted(c.bytes_per_rank for c in classes for _ in range(c.num_ranks))
    assert found == sorted(BYTES_PER_PARAMETER * parameters for parameters in expected.values())


@given(st.integers(1, 10**6), st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 2, 7]))
@examples(200)
def test_a_bare_count_is_shared_out_to_the_last_parameter(count: int, tensor: int, pipeline: int, data: int) -> None:
    count = max(count, tensor * pipeline)
    report = report_of({"num_parameters": count}, tensor=tensor, pipeline=pipeline, data=data)
    written = [c.bytes_per_rank for c in report.layout.rank_classes for _ in range(c.num_ranks)]
    assert sum(written) == BYTES_PER_PARAMETER * count
    assert max(written) - min(written) <= 2 * BYTES_PER_PARAMETER
    assert report.checkpoint.replicated_bytes == 0


@given(
    st.sampled_from([1, 2, 3, 4, 8, 16]),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(1, 3),
    st.sampled_from([1, 3, 4, 8, 16]),
    st.just(DEFAULT_RANK_ORDER) | st.permutations(DEFAULT_RANK_ORDER),
)
@examples(400)
def test_writers_stand_on_the_nodes_that_a_walk_over_all_ranks_finds(
    tensor: int, pipeline: int, data: int, context: int, gpus_per_node: int, order: Sequence[Axis]
) -> None:
    degrees = {"tensor": tensor, "pipeline": pipeline, "data": data, "context": context}
    parallelism = Parallelism.model_validate(degrees | {"rank_order": order})
    nodes = writing_nodes(parallelism, gpus_per_node)
    expected = WriterPlacement(len(nodes), max(nodes.values()))
    assert place_writers(parallelism, writers_per_stage=tensor, gpus_per_node=gpus_per_node) == expected


@given(
    st.sampled_from([1, 2, 3, 8]),
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from([1, 3, 4, 8, 16]),
    st.just(DEFAULT_RANK_ORDER) | st.permutations(DEFAULT_RANK_ORDER),
    st.data(),
)
@examples(300)
def test_the_fullest_node_writes_what_a_walk_over_all_ranks_finds(
    tensor: int, pipeline: int, data: int, gpus_per_node: int, order: Sequence[Axis], drawn: st.DataObject
) -> None:
    """Ranges of equal stages, in which some ranks write and no two the same."""
    degrees = {"tensor": tensor, "pipeline": pipeline, "data": data}
    parallelism = Parallelism.model_validate(degrees | {"rank_order": order})
    cuts = drawn.draw(st.sets(st.integers(1, pipeline - 1), max_size=3)) if pipeline > 1 else set()
    edges = [0, *sorted(cuts), pipeline]
    numbers = st.lists(st.integers(0, parallelism.ranks_per_stage - 1), min_size=1, unique=True)
    numbers_of_stages, written, nodes = [], [], [0] * parallelism.num_gpus
    for stages in map(range, edges[:-1], edges[1:]):
        writing = drawn.draw(numbers)
        sizes = drawn.draw(st.lists(st.integers(1, 99), min_size=len(writing), max_size=len(writing)))
        numbers_of_stages.append((stages, np.array(writing)))
        written.append(np.array(sizes))
        for stage in stages:
            for number, size in zip(writing, sizes, strict=True):
                replica, tensor_rank = divmod(number, tensor)
                rank = parallelism.rank_of(tensor=tensor_rank, replica=replica, stage=stage)
                nodes[rank // gpus_per_node] += size
    walked = nodes_of_writers(parallelism, numbers_of_stages, gpus_per_node=gpus_per_node)
    assert max_node_bytes(walked, written, max_writers_per_node=gpus_per_node) == max(nodes)


@given(
    st.sampled_from([1, 2, 3, 8]),
    st.integers(1, 12),
    st.integers(1, 4),
    st.sampled_from([1, 3, 4, 8, 16]),
    st.just(DEFAULT_RANK_ORDER) | st.permutations(DEFAULT_RANK_ORDER),
    st.data(),
)
@examples(300)
def test_copies_of_a_shard_stand_on_the_nodes_that_a_walk_over_them_finds(
    tensor: int, data: int, context: int, gpus_per_node: int, order: Sequence[Axis], drawn: st.DataObject
) -> None:
    degrees = {"tensor": tensor, "data": data, "context": context, "pipeline": 2}
    parallelism = Parallelism.model_validate(degrees | {"rank_order": order})
    apart = drawn.draw(st.integers(1, parallelism.ranks_per_stage))
    numbers = range(0, parallelism.ranks_per_stage, apart)
    ranks = (divmod(number, tensor) for number in numbers)
    nodes = {parallelism.rank_of(tensor=rank, replica=replica, stage=0) // gpus_per_node for replica, rank in ranks}
    found = num_nodes_of_copies(parallelism, copies=len(numbers), apart=apart, gpus_per_node=gpus_per_node)
    assert found == len(nodes)


def test_copies_that_are_too_many_to_look_at_are_refused() -> None:
    order = ("context", "tensor", "expert", "data", "pipeline")
    parallelism = Parallelism(context=5_000, data=1_000, rank_order=order)
    assert num_nodes_of_copies(parallelism, copies=5_000_000, apart=1, gpus_per_node=8) == 625_000
    strided = Parallelism(tensor=2, context=5_000, data=1_000, rank_order=order)
    with pytest.raises(InvalidInput, match="at most 4,000,000 copies of the state"):
        num_nodes_of_copies(strided, copies=5_000_000, apart=1, gpus_per_node=8)


@pytest.mark.parametrize(
    ("framework", "degrees", "noted"),
    [
        ("deepspeed", {}, True),
        ("deepspeed", {"zero_stage": 1}, False),
        ("megatron", {}, False),
        ("fsdp2", {}, False),
    ],
)
def test_the_zero_stage_is_noted_as_assumed_where_deepspeed_was_told_none(
    framework: str, degrees: dict[str, int], noted: bool
) -> None:
    training = {"framework": framework}
    model = {"num_parameters": 10**9}
    report = answer(scenario_from({"model": model, "training": training, "parallelism": {"data": 2} | degrees}))
    assumed = {assumption.field: assumption.value for assumption in report.assumptions}
    assert ("parallelism.zero_stage" in assumed) == noted
    assert assumed.get("parallelism.zero_stage", 1) == 1


@pytest.mark.parametrize("data", [1, 2, 6, 1000])
def test_the_data_parallel_degree_never_changes_the_checkpoint(data: int) -> None:
    one = report_of({"preset": "gpt3-175b"}, tensor=8, pipeline=8)
    many = report_of({"preset": "gpt3-175b"}, tensor=8, pipeline=8, data=data)
    assert many.checkpoint == one.checkpoint
    assert many.layout.num_writers == one.layout.num_writers


def test_tensor_groups_of_some_layers_stand_on_the_stages_of_those_layers() -> None:
    inventory = (
        TensorGroup("dense", (8, 3), 8, layers=range(3)),
        TensorGroup("other", (8, 5), 8, layers=range(3, 10)),
    )
    parallelism = Parallelism(tensor=2, pipeline=4)
    spans = stage_spans(inventory, parallelism, num_layers=10)
    expected = parameters_by_rank(inventory, parallelism, 10)
    holders = holder_classes(spans, parallelism, ())
    assert sorted(c.dense.parameters for c in holders for _ in range(c.num_ranks)) == sorted(expected.values())


@pytest.mark.parametrize(
    ("framework", "saved_as", "num_copies"), [("megatron", "megatron", 1), ("deepspeed", "deepspeed", 2)]
)
def test_key_value_heads_fewer_than_tensor_ranks_are_cut_or_copied_as_the_framework_does(
    framework: str, saved_as: str, num_copies: int
) -> None:
    report = answer(
        {
            "model": {"architecture": UNEVEN | {"head_dim": 12}},
            "training": {"framework": framework},
            "parallelism": {"tensor": 6},
            "checkpoint": {"format": saved_as},
        }
    )
    copies = {row.tensors: row.copies for row in report.checkpoint.replicated}
    assert copies.get("attention.key_value", 1) == num_copies
    assert copies["norm"] == 6
    assert "embedding" not in copies


def test_ranks_that_share_a_head_have_as_many_rows_of_it() -> None:
    with pytest.raises(InvalidInput, match=r"parallelism.tensor must divide the rows of attention.key_value, 42"):
        report_of({"architecture": UNEVEN | {"head_dim": 7}}, tensor=12)


def test_a_tied_embedding_stands_on_both_ends_of_a_pipeline() -> None:
    report = report_of({"preset": "gpt2"}, pipeline=4)
    assert {row.tensors: row.copies for row in report.checkpoint.replicated} == {"embedding": 2}
    assert report.checkpoint.replicated_bytes == 50257 * 768 * 14


def test_layers_that_do_not_divide_go_to_the_first_stages() -> None:
    report = report_of({"preset": "llama-3.1-405b"}, tensor=8, pipeline=16)
    layers = [(c.stages, c.num_layers) for c in report.layout.rank_classes]
    assert layers == [("0", 8), ("1-13", 8), ("14", 7), ("15", 7)]


@pytest.mark.parametrize("pipeline", [1, 4, 64])
def test_file_names_carry_the_stage_only_where_there_are_several(pipeline: int) -> None:
    report = report_of({"preset": "megatron-1t"}, tensor=8, pipeline=pipeline)
    expected = "mp_rank_TT_PPP/model_optim_rng.pt" if pipeline > 1 else "mp_rank_TT/model_optim_rng.pt"
    assert {file.name for c in report.layout.rank_classes for file in c.files} == {expected}


def test_a_hundred_thousand_gpus_need_no_more_rank_classes_than_eight() -> None:
    small = report_of({"preset": "megatron-1t"}, tensor=8, pipeline=4)
    large = report_of({"preset": "megatron-1t"}, tensor=8, pipeline=128, data=100)
    assert large.layout.num_gpus == 102_400
    assert len(large.layout.rank_classes) <= len(small.layout.rank_classes)


@pytest.mark.parametrize(("order", "num_nodes"), [(DEFAULT_RANK_ORDER, 8), (PIPELINE_BEFORE_DATA, 4)])
def test_the_rank_order_decides_how_many_nodes_write(order: tuple[Axis, ...], num_nodes: int) -> None:
    """Eight stages of four tensor ranks: one stage per node, or two where the stages follow each other."""
    degrees = {"tensor": 4, "pipeline": 8, "data": 6, "rank_order": order}
    layout = report_of({"preset": "gpt3-175b"}, **degrees).layout
    assert layout.num_writing_nodes == num_nodes
    assert layout.max_writers_per_node == 32 // num_nodes


@given(st.sampled_from([1, 2]), st.integers(1, 4), st.sampled_from([1, 2, 4]), st.integers(1, 3))
@examples(60)
def test_expert_ranks_hold_what_a_walk_over_every_expert_finds(
    tensor: int, pipeline: int, expert: int, replicas: int
) -> None:
    architecture = UNEVEN | {
        "family": "qwen3",
        "tied_embeddings": True,
        "num_attention_heads": 4,
        "num_kv_heads": 2,
        "num_experts": 8,
        "num_experts_per_token": 2,
        "expert_ffn_hidden_size": 10,
        "first_dense_layers": 3,
    }
    degrees = {"tensor": tensor, "pipeline": pipeline, "expert": expert, "data": expert * replicas}
    scenario = scenario_from(
        {"model": {"architecture": architecture}, "parallelism": degrees, "checkpoint": {"format": "megatron"}}
    )
    assert scenario.model.architecture is not None
    inventory = inventory_of(scenario.model.architecture)
    dense = tuple(group for group in inventory if not group.experts)
    routed = tuple(group for group in inventory if group.experts)
    held = parameters_by_rank(dense, scenario.parallelism, 7)
    one_expert = parameters_by_rank(routed, scenario.parallelism, 7)
    expected = [
        BYTES_PER_PARAMETER * (held[at] + sum(one_expert[at] for number in range(8) if number // (8 // expert) == rank))
        for at in held
        for rank in range(expert)
    ]
    classes = answer(scenario).layout.rank_classes
    assert sorted(c.bytes_per_rank for c in classes for _ in range(c.num_ranks)) == sorted(expected)


@pytest.mark.parametrize(
    ("preset", "tensor", "groups", "nearest"),
    [
        ("nemotron-3-nano-30b-a3b", 16, 8, "the nearest valid degrees are 4 and 8"),
        ("granite-4.0-h-small", 8, 1, "the nearest valid degree is 1"),
    ],
)
def test_megatron_has_no_more_tensor_ranks_than_groups_of_mamba(
    preset: str, tensor: int, groups: int, nearest: str
) -> None:
    """Megatron-Core 0.16.1 asserts that tensor ranks divide the groups (core/ssm/mamba_mixer.py)."""
    with pytest.raises(InvalidInput) as refused:
        report_of({"preset": preset}, tensor=tensor)
    (problem,) = refused.value.problems
    assert problem.field == "parallelism.tensor"
    assert f"the groups of Mamba-2 ({groups})" in problem.rule
    assert problem.remedy == nearest
    assert report_of({"preset": preset}, tensor=groups)
    others = {"training": {"framework": "torchtitan"}, "parallelism": {"tensor": 2}}
    assert answer({"model": {"preset": preset}} | others).checkpoint.total_bytes
