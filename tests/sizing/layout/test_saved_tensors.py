"""Every tensor of every rank adds up to the files of the manifest."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.layout.formats import FORMATS
from sizing.report import answer
from sizing.scenario import Scenario, scenario_from
from sizing.sized_layout import manifest_of, saved_by_rank_of
from tests.examples import examples
from tests.sizing.layout.worlds import MIXTURE, degrees, training


def scenario_of(name: str, degrees: dict[str, Any], optimizer: str = "adam") -> Scenario:
    return scenario_from(
        {
            "model": {"architecture": MIXTURE},
            "training": training(FORMATS[name], FORMATS[name].frameworks[0], optimizer=optimizer),
            "parallelism": degrees,
            "checkpoint": {"format": name},
        }
    )


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "adafactor-momentum", "adam-4bit", "muon"])
@pytest.mark.parametrize("shard_group", [1, 2, 8])
def test_the_tensors_of_a_rank_have_the_bytes_of_its_files(optimizer: str, shard_group: int) -> None:
    scenario = scenario_of("fsdp-sharded", {"data": 8, "shard_group": shard_group}, optimizer)
    files: Counter[int] = Counter()
    for row in manifest_of(scenario):
        files[row.rank] += row.tensor_bytes
    saved = saved_by_rank_of(scenario)
    assert [saving.rank for saving in saved.ranks] == sorted(rank for rank in files if files[rank])
    parts: Counter[str] = Counter()
    for saving in saved.ranks:
        tensors = saved.tensors(saving)
        assert sum(tensor.num_bytes for tensor in tensors) == files[saving.rank] == saving.num_bytes
        assert all(tensor.num_bytes for tensor in tensors)
        for tensor in tensors:
            parts[tensor.part] += tensor.num_bytes
    assert parts == {name: part.total_bytes for name, part in answer(scenario).checkpoint.parts.items()}


@pytest.mark.parametrize("name", ["megatron", "full"])
@given(data=st.data())
@examples(25)
def test_a_whole_tensor_is_counted_as_the_container_counts_it(name: str, data: st.DataObject) -> None:
    saved = saved_by_rank_of(scenario_of(name, data.draw(degrees(FORMATS[name]))))
    for saving in saved.ranks:
        assert {file.holds for file in saving.writer.files} == {"tensors"}
        assert len(saved.tensors(saving)) == sum(file.num_tensors for file in saving.writer.files)


def test_a_tensor_rank_saves_its_cut_of_each_matrix_and_every_norm_whole() -> None:
    gpt2 = {
        "model": {"preset": "gpt2"},
        "parallelism": {"tensor": 2, "pipeline": 12},
        "training": {"optimizer": "sgd"},
        "checkpoint": {"format": "megatron"},
    }
    saved = saved_by_rank_of(scenario_from(gpt2))
    assert len(saved.ranks) == 24
    middle = {tensor.name: tensor for tensor in saved.tensors(saved.ranks[4]) if tensor.part == "weights"}
    assert middle["attention.query.0"].shape == (384, 768)
    assert middle["attention.output.0"].shape == (768, 384)
    assert middle["ffn.up.0"].shape == (1536, 768)
    assert middle["norm.0"].shape == (768,)
    assert {tensor.dtype for tensor in middle.values()} == {"bf16"}
    assert {tensor.dtype for tensor in saved.tensors(saved.ranks[4]) if tensor.part == "master"} == {"fp32"}


def test_shares_of_ranks_laid_end_to_end_are_the_stage() -> None:
    """Eleven values of bf16 on three ranks: shares of 7, 7 and 8 bytes, two of which are no whole number of values."""
    document = {
        "model": {"num_parameters": 11},
        "training": {"framework": "fsdp2", "precision": "bf16", "optimizer": "sgd"},
        "checkpoint": {"format": "fsdp-sharded"},
        "parallelism": {"data": 3, "shard_group": 1},
    }
    saved = saved_by_rank_of(scenario_from(document))
    assert [[(t.shape, t.dtype) for t in saved.tensors(saving)] for saving in saved.ranks] == [
        [((3,), "bf16"), ((1,), "uint8")],
        [((3,), "bf16"), ((1,), "uint8")],
        [((4,), "bf16")],
    ]


@pytest.mark.parametrize(("optimizer", "num_buffers"), [("sgd", 1), ("lion", 2), ("adam", 3)])
@pytest.mark.parametrize(
    ("name", "degrees"), [("deepspeed", {"data": 4}), ("megatron-distributed-optimizer", {"expert": 2, "data": 2})]
)
def test_a_sharded_optimizer_has_a_buffer_for_the_master_and_one_per_moment(
    name: str, degrees: dict[str, int], optimizer: str, num_buffers: int
) -> None:
    saved = saved_by_rank_of(scenario_of(name, degrees, optimizer))
    flat = [file for saving in saved.ranks for file in saving.writer.files if file.holds == "flat-buffers"]
    assert {file.num_tensors for file in flat} == {num_buffers}


@pytest.mark.parametrize("zero_stage", [1, 3])
def test_a_sharded_optimizer_is_flat_buffers_of_whole_parts(zero_stage: int) -> None:
    document = {
        "model": {"preset": "gpt2"},
        "training": {"framework": "deepspeed"},
        "parallelism": {"data": 2, "zero_stage": zero_stage},
    }
    saved = saved_by_rank_of(scenario_from(document))
    flat = [tensor for tensor in saved.tensors(saved.ranks[1]) if tensor.part != "weights"]
    assert [(tensor.part, tensor.shape) for tensor in flat] == [
        ("master", (62219904,)),
        ("moments", (62219904,)),
        ("moments", (62219904,)),
    ]
