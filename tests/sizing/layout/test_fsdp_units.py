"""Megatron-FSDP's shares of a unit, against a walk over its values and against the library itself."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.layout.formats.fsdp_units import Parameter, shares_of
from sizing.report import answer
from sizing.scenario import Scenario, scenario_from
from sizing.sized_layout import manifest_of
from tests.examples import examples

shapes = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 40)),
        st.tuples(st.integers(1, 12), st.sampled_from([1, 2, 3, 4, 6, 8, 12])),
    ),
    min_size=1,
    max_size=7,
)


def _parameter(shape: tuple[int, ...]) -> Parameter:
    return Parameter(math.prod(shape), math.prod(shape[1:]), (math.prod(shape),))


@examples(60)
@given(shapes=shapes, num_ranks=st.integers(1, 9))
def test_shares_add_up_and_no_rank_has_more_than_whole_rows_need(shapes: list[tuple[int, ...]], num_ranks: int) -> None:
    shares = shares_of(tuple(map(_parameter, shapes)), num_ranks)
    assert shares.values.sum() == sum(map(math.prod, shapes))
    assert shares.pieces.sum() >= len(shapes)
    assert ((shares.values == 0) == (shares.pieces == 0)).all()


@examples(60)
@given(shapes=shapes, num_ranks=st.integers(1, 9), data=st.data())
def test_shares_of_what_other_tensor_ranks_save_are_empty(
    shapes: list[tuple[int, ...]], num_ranks: int, data: st.DataObject
) -> None:
    """They leave the others where they are: what is saved of both halves together is what is saved of all."""
    whole = tuple(map(_parameter, shapes))
    is_here = data.draw(st.lists(st.booleans(), min_size=len(whole), max_size=len(whole)))
    here = tuple(p if mine else p._replace(saved=()) for p, mine in zip(whole, is_here, strict=True))
    there = tuple(p._replace(saved=()) if mine else p for p, mine in zip(whole, is_here, strict=True))
    found, rest, both = (shares_of(each, num_ranks) for each in (here, there, whole))
    assert (found.values + rest.values).tolist() == both.values.tolist()
    assert (found.pieces + rest.pieces).tolist() == both.pieces.tolist()
    assert found.values.sum() == sum(sum(p.saved) for p in here)


def test_a_tensor_rank_may_save_nothing_of_a_unit() -> None:
    """Of Llama 3.2 1B the last norm is a unit of its own, after an embedding that fills one; rank 0 of 2 saves it."""
    cut, whole = (answer(_scenario("llama-3.2-1b", tensor=tensor, data=4)).checkpoint for tensor in (2, 1))
    assert cut.parts.keys() == whole.parts.keys()
    assert cut.logical_bytes == whole.logical_bytes


@pytest.mark.long
@examples(150)
@given(shapes=shapes, num_ranks=st.integers(1, 9))
def test_shares_are_those_of_the_library(shapes: list[tuple[int, ...]], num_ranks: int) -> None:
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("megatron.core.distributed.fsdp.src.megatron_fsdp.param_and_grad_buffer")
    config = pytest.importorskip("megatron.core.distributed.fsdp.src.megatron_fsdp.distributed_data_parallel_config")
    module = torch.nn.ParameterList([torch.empty(shape, device="meta") for shape in shapes])
    groups, *_ = library._get_parameter_groups(module, library.BucketingPolicy(suggested_bucket_size=None), {})
    (group,) = groups
    ddp = config.DistributedDataParallelConfig(data_parallel_sharding_strategy="optim_grads_params")
    items, _, shard = library.build_data_parallel_buffer_index(
        [parameter.shape for parameter in group.params], 0, num_ranks, True, ddp, 0, group.chunk_size_factor
    )
    values, pieces = np.zeros(num_ranks, int), np.zeros(num_ranks, int)
    for item, rank in itertools.product(items.values(), range(num_ranks)):
        start, past = item.global_data_index, item.global_data_index + item.size
        held = min(past, (rank + 1) * shard.size) - max(start, rank * shard.size)
        values[rank] += max(held, 0)
        pieces[rank] += held > 0
    found = shares_of(tuple(map(_parameter, shapes)), num_ranks)
    assert (found.values.tolist(), found.pieces.tolist()) == (values.tolist(), pieces.tolist())


def _scenario(model: str, **parallelism: int) -> Scenario:
    return _with({}, model, **parallelism)


def _with(training: dict[str, Any], /, model: str = "llama-3.1-8b", **parallelism: Any) -> Scenario:
    return scenario_from(
        {
            "model": {"preset": model},
            "parallelism": parallelism,
            "training": {"distributed_optimizer": True, **training},
            "checkpoint": {"format": "fsdp-dtensor"},
        }
    )


@pytest.mark.parametrize(
    ("model", "degrees"),
    [
        ("llama-3.1-8b", {"data": 64}),
        ("llama-3.1-8b", {"tensor": 8, "data": 6}),
        ("qwen3-30b-a3b", {"data": 16, "expert": 8}),
        ("qwen3-30b-a3b", {"tensor": 4, "data": 8, "expert": 2, "expert_tensor": 1}),
        ("deepseek-v2-lite", {"data": 12, "shard_group": 4, "expert": 4}),
        ("deepseek-v2-lite", {"tensor": 2, "data": 8, "shard_group": 4, "expert": 8, "expert_tensor": 1}),
        ("gemma-3-4b", {"data": 7}),
    ],
)
def test_every_value_is_saved_once(model: str, degrees: dict[str, int]) -> None:
    scenario = _scenario(model, **degrees)
    report = answer(scenario)
    assert report.checkpoint.total_bytes == 12 * report.model.num_parameters
    assert sum(row.tensor_bytes for row in manifest_of(scenario)) == report.checkpoint.total_bytes


def test_the_last_rank_has_less_by_what_fills_up_whole_rows() -> None:
    """Of each layer and of what stands outside, shares are multiples of its rows, the least common of unlike ones."""
    rows = [row.tensor_bytes for row in manifest_of(_scenario("llama-3.1-8b", data=64))]
    assert rows[0] == max(rows)
    assert rows[-1] == min(rows) < rows[0]
    assert rows.count(rows[0]) > 50


@pytest.mark.parametrize(
    ("precision", "degrees"),
    [("bf16-mixed", {"data": 8}), ("bf16-mixed", {"tensor": 2, "data": 6, "shard_group": 3}), ("fp32", {"data": 8})],
)
def test_what_is_frozen_has_its_weights_and_no_optimizer(precision: str, degrees: dict[str, Any]) -> None:
    """The model's state dict has its 16-bit weights where what is trained has fp32 ones."""
    scenario = _with({"frozen": ["embedding"], "precision": precision}, **degrees)
    trained, frozen = 7_504_924_672, 128_256 * 4_096
    by_hand = 12 * trained + (4 if precision == "fp32" else 2) * frozen
    assert answer(scenario).checkpoint.total_bytes == by_hand
    assert sum(row.tensor_bytes for row in manifest_of(scenario)) == by_hand


@pytest.mark.parametrize(("training", "by_hand"), [({}, 40_894_464), ({"save_base": True}, 16_101_416_960)])
def test_beside_adapters_the_base_is_saved_only_where_asked(training: dict[str, bool], by_hand: int) -> None:
    """Rank 8 on queries and values of 32 layers of 4,096 and 1,024: 3,407,872 values at 12 bytes; the base at 2."""
    scenario = _with({"adapters": {"rank": 8, **training}}, data=8)
    assert answer(scenario).checkpoint.total_bytes == by_hand


def test_factored_statistics_are_shared_evenly() -> None:
    scenario = _with({"optimizer": "adafactor"}, data=8)
    report = answer(scenario)
    assert sum(row.tensor_bytes for row in manifest_of(scenario)) == report.checkpoint.total_bytes
