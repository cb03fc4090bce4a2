"""Which layers stand on which stage: uneven ends, virtual stages, embedding and loss as layers."""

import re
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.chunks import LayerSplit
from sizing.layout.stages import stage_spans
from sizing.model.inventory import TensorGroup
from sizing.report import SizingReport, answer
from tests.examples import examples

BOTH = {"embedding_counts_as_layer": True, "loss_counts_as_layer": True}


def stages_of(num_layers: int, **degrees: Any) -> list[list[list[int]]]:
    """The layers of each chunk of each stage."""
    split = LayerSplit.of(Parallelism(**degrees), num_layers)
    return [[list(chunk) for chunk in split.chunks_on(stage)] for stage in range(split.num_stages)]


@pytest.mark.parametrize(
    ("num_layers", "degrees", "expected"),
    [
        (8, {"pipeline": 2, "virtual_pipeline": 4}, [[[0], [2], [4], [6]], [[1], [3], [5], [7]]]),
        (8, {"pipeline": 2, "virtual_pipeline": 2}, [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]),
        (
            7,
            {"pipeline": 2, "virtual_pipeline": 2, "embedding_counts_as_layer": True},
            [[[0], [3, 4]], [[1, 2], [5, 6]]],
        ),
        (7, {"pipeline": 2, "virtual_pipeline": 2, "loss_counts_as_layer": True}, [[[0, 1], [4, 5]], [[2, 3], [6]]]),
        (4, {"pipeline": 3, "virtual_pipeline": 2, **BOTH}, [[[], [2]], [[0], [3]], [[1], []]]),
        (10, {"pipeline": 3, **BOTH}, [[[0, 1, 2]], [[3, 4, 5, 6]], [[7, 8, 9]]]),
        (
            12,
            {"pipeline": 3, "virtual_pipeline": 2, "first_stage_layers": 4, "last_stage_layers": 2},
            [[[0, 1], [6, 7]], [[2, 3, 4], [8, 9, 10]], [[5], [11]]],
        ),
        (10, {"pipeline": 4, "first_stage_layers": 1}, [[[0]], [[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]]),
        (10, {"pipeline": 4, "last_stage_layers": 1}, [[[0, 1, 2]], [[3, 4, 5]], [[6, 7, 8]], [[9]]]),
        (5, {"pipeline": 2, "first_stage_layers": 3, "last_stage_layers": 2}, [[[0, 1, 2]], [[3, 4]]]),
        (6, {"pipeline": 2, "virtual_pipeline": 2, "layers_per_stage": [4, 2]}, [[[0, 1], [3, 4]], [[2], [5]]]),
        (6, {"pipeline": 2, "virtual_pipeline": 2, "layers_per_stage": [0, 3, 1, 2]}, [[[], [3]], [[0, 1, 2], [4, 5]]]),
    ],
)
def test_layers_stand_where_megatron_builds_them(
    num_layers: int, degrees: dict[str, Any], expected: list[list[list[int]]]
) -> None:
    """Worked out by hand from core/transformer: get_num_layers_to_build and get_transformer_layer_offset."""
    assert stages_of(num_layers, **degrees) == expected


def test_llama_3_405b_leaves_a_layer_out_on_the_first_and_on_the_last_of_sixteen_stages() -> None:
    """Grattafiori et al. 2024, arXiv 2407.21783, section 3.3.2: the ends hold only the embedding, and only the head."""
    stages = stages_of(126, pipeline=16, virtual_pipeline=8)
    assert stages[0] == [[], [15], [31], [47], [63], [79], [95], [111]]
    assert stages[1] == [[0], [16], [32], [48], [64], [80], [96], [112]]
    assert stages[15] == [[14], [30], [46], [62], [78], [94], [110], []]


LLAMA_405B: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "training": {"micro_batch_size": 1, "sequence_length": 8192, "global_batch_size": 2048},
    "parallelism": {"tensor": 8, "pipeline": 16, "data": 128, "virtual_pipeline": 8},
    "checkpoint": {"format": "torch-dist"},
    "cluster": {"node": "dgx-h100"},
}
BYTES_OF_A_LAYER = 14 * (2 * 16384**2 + 2 * 16384 * 1024 + 3 * 16384 * 53248 + 2 * 16384)
"""Queries and output, keys and values of 8 heads, gated feed-forward block, norms; bf16, fp32 master, two moments."""

ACTIVATION_BYTES_OF_A_TOKEN = 2 * ((16 + 1) * (128 + 128) + 3 * 53248 // 8 + 4 * 16384 // 8)
"""Per layer on one of 8 tensor ranks, selective: heads, feed-forward block, inputs of norms and projections."""


def llama_405b(**parallelism: Any) -> SizingReport:
    return answer(LLAMA_405B | {"parallelism": LLAMA_405B["parallelism"] | parallelism})


def test_llama_3_405b_is_answered_and_what_counts_as_a_layer_is_said() -> None:
    report = llama_405b()
    classes = report.layout.rank_classes
    assert _layers(report) == {"0": 7, "1-14": 8, "15": 7}
    of_the_middle = sum(c.num_ranks * c.bytes_per_rank for c in classes if c.stages == "1-14")
    assert of_the_middle == 14 * 8 * BYTES_OF_A_LAYER
    assert report.checkpoint.total_bytes == 14 * 405_853_388_800
    assumed = {a.field: a.value for a in report.assumptions if "counts_as_layer" in a.field}
    assert assumed == {f"parallelism.{name}": True for name in BOTH}
    assert report.training.fullest_stage == 1
    assert report.training.activation_bytes == 8 * 16 * 8192 * ACTIVATION_BYTES_OF_A_TOKEN
    assert report.training.bubble_fraction == pytest.approx(15 / (8 * 16 + 15))


def test_what_is_stated_is_not_assumed_and_gives_the_same() -> None:
    stated = llama_405b(**BOTH)
    assert not [a for a in stated.assumptions if "counts_as_layer" in a.field]
    assert stated.layout == llama_405b().layout
    assert stated.training == llama_405b().training


def test_ends_with_fewer_layers_are_uneven_stages_without_virtual_ones() -> None:
    counted = llama_405b(virtual_pipeline=1, **BOTH)
    ends = llama_405b(virtual_pipeline=1, first_stage_layers=7, last_stage_layers=7)
    assert _layers(ends) == {"0": 7, "1-14": 8, "15": 7}
    assert counted.layout == ends.layout


def _layers(report: SizingReport) -> dict[str, int]:
    return {ranks.stages: ranks.num_layers for ranks in report.layout.rank_classes}


def test_dense_layers_at_the_start_of_a_mixture_stand_on_the_stages_of_their_chunks() -> None:
    """Layers 0 to 2 of 8, two stages of four chunks: layers 0 and 2 on the first, 1 on the second."""
    inventory = (TensorGroup("dense", (8, 3), 8, layers=range(3)), TensorGroup("sparse", (8, 5), 8, layers=range(3, 8)))
    first, second = stage_spans(inventory, Parallelism(pipeline=2, virtual_pipeline=4), num_layers=8)
    assert [(h.name, h.count) for h in first.holdings] == [("dense", 2), ("sparse", 2)]
    assert [(h.name, h.count) for h in second.holdings] == [("dense", 1), ("sparse", 3)]


@st.composite
def splits(draw: st.DrawFn) -> tuple[Parallelism, int]:
    """What can be cut: with virtual stages into equal rounds, without them as it comes."""
    pipeline, virtual = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    degrees: dict[str, Any] = {"pipeline": pipeline, "virtual_pipeline": virtual}
    per_stage = virtual * draw(st.integers(1, 4))
    left_over = draw(st.integers(0, pipeline - 1)) if virtual == 1 else 0
    if pipeline > 2 and draw(st.booleans()):
        ends = [draw(st.none() | st.integers(0, 4)) for _ in range(2)]
        first, last = (end if end is None else end * virtual for end in ends)
        num_even = pipeline - sum(end is not None for end in ends)
        num_layers = (first or 0) + (last or 0) + num_even * per_stage + left_over
        return Parallelism(**degrees, first_stage_layers=first, last_stage_layers=last), num_layers
    counted = {name: draw(st.booleans()) for name in BOTH}
    num_layers = pipeline * per_stage + left_over - sum(counted.values())
    return Parallelism(**degrees, **counted), max(num_layers, 0)


@given(splits())
@examples(300)
def test_stages_hold_each_layer_once_and_spans_what_their_stages_hold(split: tuple[Parallelism, int]) -> None:
    parallelism, num_layers = split
    assume(num_layers)
    chunks = LayerSplit.of(parallelism, num_layers)
    assert chunks.is_even
    in_order = [layer for chunk in range(chunks.num_chunks) for layer in chunks.layers_in(chunk)]
    assert in_order == list(range(num_layers))
    pattern = tuple(range(0, num_layers, 3))
    inventory = (TensorGroup("all", (2,), 1, layers=range(num_layers)), TensorGroup("third", (2,), 1, layers=pattern))
    for span in stage_spans(inventory, parallelism, num_layers=num_layers):
        counts = {holding.name: holding.count for holding in span.holdings}
        for stage in span.stages:
            held = [layer for chunk in chunks.chunks_on(stage) for layer in chunk]
            assert len(held) == span.num_layers == counts.get("all", 0)
            assert sum(layer % 3 == 0 for layer in held) == counts.get("third", 0)


UNEQUAL = "parallelism.virtual_pipeline must cut num_layers"


@pytest.mark.parametrize(
    ("parallelism", "sentence"),
    [
        (
            {"embedding_counts_as_layer": True, "loss_counts_as_layer": False},
            f"{UNEQUAL} 126 + embedding over pipeline 16 into equal chunks, got 8: "
            "set embedding_counts_as_layer and loss_counts_as_layer",
        ),
        (
            {"embedding_counts_as_layer": False},
            "got 8: set embedding_counts_as_layer and loss_counts_as_layer",
        ),
        (
            {"virtual_pipeline": 3},
            f"{UNEQUAL} 126 over pipeline 16 into equal chunks, got 3: with embedding_counts_as_layer and "
            "loss_counts_as_layer the nearest valid degrees are 2 and 4",
        ),
        (
            {"pipeline": 1, "virtual_pipeline": 2},
            "parallelism.virtual_pipeline must be 1 with pipeline 1, got 2: give a pipeline degree of 2 or more",
        ),
        ({"pipeline": 127, "virtual_pipeline": 1}, "parallelism.pipeline must be at most num_layers 126, got 127"),
        (
            {"pipeline": 128, "virtual_pipeline": 1, "loss_counts_as_layer": True},
            "parallelism.pipeline must be at most num_layers 126 + loss, got 128: the nearest valid degree is 127",
        ),
        (
            {"first_stage_layers": 7, "last_stage_layers": 7},
            "parallelism.virtual_pipeline must divide the layers of every stage, the first, the last and those between",
        ),
        ({"layers_per_stage": [7, *[8] * 14, 7]}, "give layers_per_stage for each of 128 chunks"),
        (
            {"first_stage_layers": 70, "last_stage_layers": 70},
            "parallelism.first_stage_layers must be at most num_layers 126 with last_stage_layers, got 140",
        ),
        ({"last_stage_layers": 127}, "parallelism.last_stage_layers must be at most num_layers 126, got 127"),
        (
            {"pipeline": 2, "virtual_pipeline": 1, "first_stage_layers": 60, "last_stage_layers": 65},
            "parallelism.first_stage_layers must add up to num_layers 126 with last_stage_layers, got 125",
        ),
        (
            {"pipeline": 1, "virtual_pipeline": 1, "first_stage_layers": 7},
            "has first_stage_layers or last_stage_layers and pipeline 1",
        ),
        (
            {"first_stage_layers": 7, "loss_counts_as_layer": True},
            "first_stage_layers or last_stage_layers and also embedding_counts_as_layer or loss_counts_as_layer",
        ),
        ({"layers_per_stage": [8] * 16, "first_stage_layers": 7}, "has layers_per_stage and also first_stage_layers"),
        ({"layers_per_stage": [8] * 16} | BOTH, "has layers_per_stage and also embedding_counts_as_layer"),
        ({"layers_per_stage": [8] * 17}, "has layers_per_stage for 17 stages and pipeline 16"),
    ],
)
def test_stages_that_cannot_be_are_refused_with_what_to_change(parallelism: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        llama_405b(**parallelism)
    assert sentence in str(caught.value)


DEEPSEEK_V3: dict[str, Any] = {
    "model": {"preset": "deepseek-v3"},
    "training": {"framework": "megatron"},
    "parallelism": {
        "tensor": 8,
        "pipeline": 8,
        "virtual_pipeline": 2,
        "data": 4,
        "expert": 32,
        "expert_tensor": 1,
    },
}
PER_CHUNK = re.compile(r"layers_per_stage ([0-9x,]+)")


def with_the_layers_proposed(document: dict[str, Any]) -> SizingReport:
    """The answer with the layers of each chunk that the refusal of a document proposes, as they are written there."""
    with pytest.raises(InvalidInput) as caught:
        answer(document)
    proposed = PER_CHUNK.search(str(caught.value))
    assert proposed is not None, str(caught.value)
    return answer(document | {"parallelism": document["parallelism"] | {"layers_per_stage": proposed[1]}})


def test_a_prime_number_of_layers_gets_the_layers_of_each_chunk_as_the_remedy() -> None:
    report = with_the_layers_proposed(DEEPSEEK_V3)
    assert _layers(report) == {"0": 7, "1": 8, "2-6": 8, "7": 6}
    assert report.checkpoint.logical_bytes == 14 * 671_026_404_352


@pytest.mark.parametrize(("num_layers", "pipeline", "virtual"), [(61, 16, 2), (61, 4, 8), (5, 4, 2), (43, 4, 3)])
def test_the_layers_that_a_refusal_proposes_are_accepted(num_layers: int, pipeline: int, virtual: int) -> None:
    model = {
        "architecture": {
            "family": "gpt2",
            "num_layers": num_layers,
            "hidden_size": 64,
            "num_attention_heads": 4,
            "vocab_size": 128,
        }
    }
    degrees = {"pipeline": pipeline, "virtual_pipeline": virtual}
    report = with_the_layers_proposed({"model": model, "parallelism": degrees, "training": {"framework": "megatron"}})
    assert report.checkpoint.total_bytes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("9x4,25", "has layers_per_stage for 10 stages and pipeline 8"),
        ("3,9999x9999,2,9999x1", "must have at most 1024 entries"),
        ("3,four,2", "must be a whole number, got 'four'"),
    ],
)
def test_layers_as_text_that_fit_no_stages_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        answer(DEEPSEEK_V3 | {"parallelism": DEEPSEEK_V3["parallelism"] | {"layers_per_stage": text}})
    assert sentence in str(caught.value)
