"""The layout search: complete, in agreement with `answer`, ranked, bounded."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.published import published
from sizing.questions.layouts.objectives import OBJECTIVES
from sizing.questions.layouts.report import FoundLayout, LayoutsReport
from sizing.questions.layouts.request import REFERENCE_SEARCH
from sizing.questions.layouts.search import scenario_with
from sizing.questions.layouts.words import layouts_summary
from sizing.questions.registry import LAYOUTS
from sizing.report import answer
from sizing.scenario import Scenario, scenario_from
from sizing.training.schedules import SCHEDULES
from sizing.units import decimal_bytes_text, parse_bytes_per_second
from tests.examples import examples, spread

BATCH = {"sequence_length": 4096, "micro_batch_size": 1}
RATES = {"profile": {"write_bytes_per_second": "100 GB/s", "node_write_bytes_per_second": "4 GB/s"}}


def question(model: str, num_gpus: int, **blocks: Any) -> dict[str, Any]:
    cluster = {"num_gpus": num_gpus, "node": "dgx-h100"} | blocks.pop("cluster", {})
    return {"model": {"preset": model}, "cluster": cluster} | blocks


def search(model: str, num_gpus: int, *, asked: dict[str, Any] | None = None, **blocks: Any) -> LayoutsReport:
    options = {"max_layouts": 1000} | (asked or {})
    return LAYOUTS.answer({"scenario": question(model, num_gpus, **blocks)} | options)


def degrees(layout: FoundLayout) -> tuple[int, ...]:
    found = layout.parallelism
    return found.tensor, found.pipeline, found.data, found.expert


def as_found(document: dict[str, Any], layout: FoundLayout) -> Scenario:
    """The scenario with all that the search chose."""
    scenario = scenario_with(scenario_from(document), layout.parallelism, layout.recomputation)
    names = ("micro_batch_size", "recomputed_layers", "offload")
    chosen = {name: getattr(layout, name) for name in names}
    if layout.distributed_optimizer:
        chosen["distributed_optimizer"] = True
    return scenario.model_copy(update={"training": scenario.training.model_copy(update=chosen)})


def agrees(document: dict[str, Any], layout: FoundLayout, *, room_bytes: int) -> None:
    """What the search says of a layout is what `answer` says of it, and it fits."""
    report = answer(as_found(document, layout))
    memory, write = report.training, report.write
    needed = memory.gpu_state_bytes if memory.total_bytes is None else memory.total_bytes
    assert needed == layout.gpu_bytes <= room_bytes
    assert memory.fits in (True, None)
    assert not any("cannot run" in warning for warning in report.warnings)
    assert (memory.activation_bytes, memory.bubble_fraction) == (layout.activation_bytes, layout.bubble_fraction)
    assert report.layout.num_gpus == document["cluster"]["num_gpus"]
    assert report.stored_bytes == layout.stored_bytes
    assert report.layout.num_writers == layout.num_writers
    assert report.checkpoint.total_bytes == layout.total_bytes
    assert (write.seconds if write else None) == layout.write_seconds
    assert report.required.write_bytes_per_second == layout.required_write_bytes_per_second


FRAMEWORKS = st.sampled_from(
    [
        {"training": {"framework": "megatron"}},
        {"training": {"framework": "megatron", "vocabulary_padding_multiple": 128}},
        {"checkpoint": {"format": "torch-dist"}, "parallelism": {"virtual_pipeline": 2}},
        {"training": {"distributed_optimizer": True}, "parallelism": {"expert_tensor": 1}},
        {"checkpoint": {"format": "megatron"}},
        {"training": {"framework": "deepspeed"}},
        {"training": {"framework": "fsdp2"}},
    ]
)


@examples(12)
@given(
    model=st.sampled_from(["llama-3.1-8b", "gpt3-175b", "mixtral-8x7b", "deepseek-v2-lite"]),
    num_gpus=st.sampled_from([8, 24, 64, 256]),
    blocks=FRAMEWORKS,
    batch=st.sampled_from([{}, BATCH, BATCH | {"global_batch_size": 1024}, BATCH | {"recomputation": "full"}]),
)
def test_what_is_found_is_what_answer_says_and_fits(
    model: str, num_gpus: int, blocks: dict[str, Any], batch: dict[str, Any]
) -> None:
    blocks = blocks | {"training": blocks.get("training", {}) | batch, "storage": RATES}
    report = search(model, num_gpus, **blocks)
    document = question(model, num_gpus, **blocks)
    assert report.num_candidates == report.num_refused + report.num_too_large + report.num_fitting
    for layout in report.layouts[:25]:
        agrees(document, layout, room_bytes=report.room_bytes)


@pytest.mark.parametrize("model", spread(["llama-3.1-8b", "mixtral-8x7b"], by_default=["mixtral-8x7b"]))
def test_nothing_that_fits_is_missing(model: str) -> None:
    """Every product of powers of two and three on 24 GPUs, answered one by one."""
    factors = (1, 2, 3, 4, 6, 8, 12, 24)
    training = BATCH | {"recomputation": "selective"}
    expected = set()
    for tensor, pipeline, data, expert in itertools.product((1, 2, 4, 8), factors, factors, (1, 2, 4, 8)):
        if tensor * pipeline * data != 24 or (model == "llama-3.1-8b" and expert > 1):
            continue
        cut = {"tensor": tensor, "pipeline": pipeline, "data": data, "expert": expert}
        try:
            report = answer(scenario_from(question(model, 24, training=training, parallelism=cut)))
        except InvalidInput:
            continue
        if (report.training.total_bytes or 0) <= 80e9 * 0.75:
            expected.add((tensor, pipeline, data, expert))
    found = search(model, 24, training=training, asked={"headroom_fraction": 0.25})
    assert {degrees(layout) for layout in found.layouts} == expected
    assert expected


def test_published_layouts_are_among_those_found() -> None:
    for row in published("state_memory_per_gpu")["rows"]:
        cut = tuple(row.get(name, 1) for name in ("tensor", "pipeline", "data", "expert"))
        if row["plain_gb"] < 72:
            found = search(row["model"].split()[0], cut[0] * cut[1] * cut[2])
            assert cut in {degrees(layout) for layout in found.layouts}, row["model"]


def test_the_layout_of_llama_405b_is_found() -> None:
    """Tensor 8, pipeline 16, data 128 on 16,384 GPUs: arXiv 2407.21783, table 4."""
    found = LAYOUTS.answer(REFERENCE_SEARCH | {"max_layouts": 100})
    assert (8, 16, 128, 1) in {degrees(layout) for layout in found.layouts}


def test_the_layout_of_llama_405b_is_among_the_five_that_train_fastest() -> None:
    """With virtual stages, as published: arXiv 2407.21783, section 3.3.2."""
    found = LAYOUTS.answer(REFERENCE_SEARCH | {"objective": "step-time", "max_layouts": 5})
    assert (8, 16, 128, 1) in {degrees(layout) for layout in found.layouts}
    steps = [layout.step_seconds for layout in found.layouts]
    assert all(step is not None and step > 0 for step in steps)
    assert all(layout.gpu_bytes + layout.headroom_bytes == found.gpu_memory_bytes for layout in found.layouts)


def test_what_is_fastest_takes_as_long_in_its_answer() -> None:
    training = BATCH | {"global_batch_size": 256}
    [best] = search("llama-3.1-70b", 64, training=training, asked={"objective": "step-time", "max_layouts": 1}).layouts
    found = ("micro_batch_size", "recomputation", "distributed_optimizer")
    changed = {name: value for name in found if (value := getattr(best, name)) is not None}
    cut = best.parallelism.model_dump(exclude_unset=True)
    document = question("llama-3.1-70b", 64, training=training | changed, parallelism=cut)
    step = answer(scenario_from(document)).training.step
    assert step is not None
    assert (step.seconds, step.mfu_fraction) == (best.step_seconds, best.mfu_fraction)
    slower = document | {"training": document["training"] | {"recomputation": "full"}}
    of_full = answer(scenario_from(slower)).training.step
    assert of_full is not None
    assert of_full.seconds > step.seconds


def test_the_fewest_layers_that_fit_are_computed_again() -> None:
    """Megatron-LM's --recompute-num-layers: one layer less does not fit, and the step is shorter than with all."""
    asked = REFERENCE_SEARCH | {"objective": "step-time", "max_layouts": 8, "offload": False}
    found = LAYOUTS.answer(asked)
    partly = [layout for layout in found.layouts if layout.recomputed_layers]
    assert max(layout.recomputed_layers or 0 for layout in partly) > 1
    for layout in partly:
        asked_as = as_found(asked["scenario"], layout)
        agrees(asked["scenario"], layout, room_bytes=found.room_bytes)
        fewer = (layout.recomputed_layers or 0) - 1
        less = {"recomputed_layers": fewer} if fewer else {"recomputation": "none", "recomputed_layers": None}
        training = asked_as.training.model_copy(update=less)
        assert (answer(asked_as.model_copy(update={"training": training})).training.total_bytes or 0) > found.room_bytes
    of_whole_chunks = LAYOUTS.answer(asked | {"partial_recomputation": False})
    assert {layout.recomputed_layers for layout in of_whole_chunks.layouts} == {None}
    assert (of_whole_chunks.layouts[0].step_seconds or 0) > (found.layouts[0].step_seconds or 0)
    assert (of_whole_chunks.num_fitting, of_whole_chunks.num_candidates) == (found.num_fitting, found.num_candidates)


@pytest.mark.parametrize("schedule", spread([None, *SCHEDULES], by_default=[None, "gpipe", "interleaved"]))
def test_a_schedule_that_is_named_stays(schedule: str | None) -> None:
    """With the virtual stages that it runs, and with none where there is one stage; the bubble is that of `answer`."""
    training = {"distributed_optimizer": True, "global_batch_size": 256, "schedule": schedule} | BATCH
    blocks: dict[str, Any] = {"training": training, "checkpoint": {"format": "torch-dist"}}
    layouts = search("llama-3.1-8b", 64, asked={"objective": "step-time"}, **blocks).layouts
    piped = [layout for layout in layouts if layout.parallelism.pipeline > 1]
    assert piped
    for layout in piped:
        virtual = layout.parallelism.virtual_pipeline
        assert layout.schedule == schedule or (schedule is None and layout.schedule in ("1f1b", "interleaved"))
        assert layout.schedule is not None
        assert SCHEDULES[layout.schedule].runs_chunks(virtual)
    assert all(layout.schedule is None for layout in layouts if layout.parallelism.pipeline == 1)
    agrees(question("llama-3.1-8b", 64, **blocks), piped[0], room_bytes=72 * 10**9)


def test_one_stage_holds_one_microbatch_whatever_the_schedule() -> None:
    """GPipe holds all microbatches of a step, in a pipeline."""
    training = {"global_batch_size": 256, "schedule": "gpipe"} | BATCH
    scenario = scenario_from(question("llama-3.1-8b", 64, training=training, parallelism={"tensor": 8, "data": 8}))
    unnamed = scenario.model_copy(update={"training": scenario.training.model_copy(update={"schedule": None})})
    assert answer(scenario).training.activation_bytes == answer(unnamed).training.activation_bytes
    said = [each.sentence for each in answer(scenario).assumptions if each.field == "training.schedule"]
    assert "has no effect with pipeline 1" in said[0]


def test_virtual_stages_that_the_named_schedule_does_not_run_are_refused_with_its_reason() -> None:
    training = {"global_batch_size": 256, "schedule": "gpipe"} | BATCH
    blocks = {"training": training, "checkpoint": {"format": "torch-dist"}}
    found = search("llama-3.1-8b", 64, asked={"virtual_pipelines": [2], "objective": "step-time"}, **blocks)
    assert not found.layouts
    assert found.num_refused == found.num_candidates


def test_experts_are_cut_by_other_tensor_degrees_too() -> None:
    training = BATCH | {"global_batch_size": 256, "distributed_optimizer": True}
    options = {"objective": "step-time", "micro_batches": [1], "virtual_pipelines": [1], "max_layouts": 8}
    best, of_one, of_two = (
        search("mixtral-8x7b", 64, training=training, asked=options | degrees)
        for degrees in ({}, {"expert_tensors": [1]}, {"expert_tensors": [2]})
    )
    assert {layout.parallelism.expert_tensor_degree for layout in of_one.layouts} == {1}
    assert {layout.parallelism.expert_tensor_degree for layout in of_two.layouts} == {2}
    assert {layout.parallelism.tensor for layout in of_two.layouts} <= {2, 4, 8}
    assert (best.layouts[0].step_seconds or 0) <= (of_one.layouts[0].step_seconds or 0)
    assert best.num_candidates > of_one.num_candidates


def test_layouts_are_ranked_by_time_where_the_scenario_tells_it() -> None:
    training = BATCH | {"global_batch_size": 64}
    reliability = {"mtbf_seconds": "8h"}
    for blocks, objective in (
        ({}, "model-parallel-gpus"),
        ({"training": BATCH}, "model-parallel-gpus"),
        ({"training": training}, "step-time"),
        ({"training": training, "storage": RATES}, "step-time"),
        ({"training": training, "storage": RATES, "reliability": reliability}, "goodput"),
    ):
        assert search("llama-3.2-1b", 8, asked={"max_layouts": 1}, **blocks).objective == objective


def test_what_nearly_fits_is_faster_and_is_told_what_makes_it_fit() -> None:
    training = BATCH | {"global_batch_size": 256}
    options = {"objective": "step-time", "headroom_fraction": 0.6}
    found = search("llama-3.1-70b", 64, training=training | {"distributed_optimizer": True}, asked=options)
    assert found.nearly_fitting
    for near in found.nearly_fitting:
        assert near.missing_bytes == near.gpu_bytes - found.room_bytes > 0
        assert (near.step_seconds or 0) < (found.layouts[0].step_seconds or 0)
        assert " in place of " in near.change


def test_goodput_weighs_tokens_by_what_saves_and_failures_leave() -> None:
    training = BATCH | {"global_batch_size": 256}
    blocks = {"storage": RATES, "reliability": {"mtbf_seconds": "8h"}}
    found = search("llama-3.1-70b", 64, training=training, **blocks, asked={"objective": "goodput", "max_layouts": 5})
    for layout in found.layouts:
        assert 0 < (layout.effective_tokens_per_second or 0) < (layout.tokens_per_second or 0)


@pytest.mark.long
def test_the_layouts_of_max_goodput_are_those_that_asking_of_all_finds() -> None:
    training = BATCH | {"global_batch_size": 256}
    blocks = {"training": training, "storage": RATES, "reliability": {"mtbf_seconds": "8h"}}
    few, all_asked = (search("llama-3.1-70b", 64, **blocks, asked={"max_layouts": num}) for num in (5, 1000))
    assert all_asked.num_fitting == len(all_asked.layouts) > 5
    assert few.layouts == all_asked.layouts[:5]


def test_layouts_without_goodput_are_ranked_by_the_time_of_a_step_and_the_report_says_so() -> None:
    """A save of 64 ranks that takes longer than the interval leaves no time to train."""
    training = BATCH | {"global_batch_size": 256}
    blocks = {"training": training, "reliability": {"mtbf_seconds": "8h"}, "checkpoint": {"interval_seconds": 60}}
    slow = {"storage": {"profile": {"write_bytes_per_second": "1 GB/s"}}}
    found = search("llama-3.1-70b", 64, **blocks, **slow, asked={"objective": "goodput"})
    assert {layout.effective_tokens_per_second for layout in found.layouts} == {None}
    steps = [layout.step_seconds or 0.0 for layout in found.layouts]
    assert steps == sorted(steps)
    assert f"Goodput of {len(steps)} layouts not known" in found.warnings[0]
    assert "Raise checkpoint.interval_seconds" in found.warnings[0]
    unwritten = {"storage": {"profile": {"read_bytes_per_second": "1 GB/s"}}}
    found = search("llama-3.1-70b", 64, **blocks, **unwritten, asked={"objective": "goodput"})
    assert "Give storage.profile.write_bytes_per_second" in found.warnings[0]


@pytest.mark.parametrize(
    ("objective", "blocks", "field"),
    [
        ("step-time", {}, "training.global_batch_size is required"),
        ("goodput", {"training": BATCH | {"global_batch_size": 256}}, "storage and reliability are required"),
    ],
)
def test_an_objective_of_time_says_what_it_needs(objective: str, blocks: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        search("llama-3.1-8b", 64, **blocks, asked={"objective": objective})


@pytest.mark.parametrize("objective", spread(OBJECTIVES, by_default=["goodput", "write-bandwidth", "memory"]))
def test_layouts_are_ranked_by_the_objective_and_then_by_the_stated_rule(objective: Any) -> None:
    training = BATCH | {"global_batch_size": 1536}
    saved = {"checkpoint": {"format": "megatron"}, "storage": RATES, "reliability": {"mtbf_seconds": "8h"}}
    found = search("gpt3-175b", 1536, training=training, **saved, asked={"objective": objective})
    figures = [OBJECTIVES[objective](layout) for layout in found.layouts]
    order = [
        (float("inf") if figure is None else figure, layout.model_parallel_gpus, layout.parallelism.pipeline)
        for figure, layout in zip(figures, found.layouts, strict=True)
    ]
    assert order == sorted(order)
    assert len(set(figures)) > 1


def test_recomputation_is_the_least_that_fits_unless_it_is_given() -> None:
    batch = BATCH | {"attention": "eager"}
    chosen = search("llama-3.1-70b", 64, training=batch)
    assert {layout.recomputation for layout in chosen.layouts} > {"selective", "full"}
    for layout in chosen.layouts:
        if layout.recomputation == "full":
            selective = scenario_from(question("llama-3.1-70b", 64, training=batch))
            memory = answer(scenario_with(selective, layout.parallelism, "selective")).training
            assert (memory.total_bytes or 0) > chosen.room_bytes
    given = search("llama-3.1-70b", 64, training=BATCH | {"recomputation": "full"})
    assert {layout.recomputation for layout in given.layouts} == {"full"}


def test_frameworks_search_their_own_sharding() -> None:
    zero = search("llama-3.1-8b", 16, training={"framework": "deepspeed"})
    assert {layout.parallelism.zero_stage for layout in zero.layouts} == {1, 2, 3}
    assert all(found.pipeline == 1 or found.zero_stage == 1 for found in (each.parallelism for each in zero.layouts))
    given = search("llama-3.1-8b", 16, training={"framework": "deepspeed"}, parallelism={"zero_stage": 2})
    assert {layout.parallelism.zero_stage for layout in given.layouts} == {2}
    shards = search("llama-3.1-8b", 16, training={"framework": "fsdp2"})
    alone = [each.parallelism for each in shards.layouts if each.parallelism.model_parallel_size == 1]
    assert [degrees.shard_group for degrees in alone] == [2, 4, 8, 16]
    assert {each.parallelism.tensor for each in shards.layouts} == {1, 2, 4, 8}
    assert {each.parallelism.pipeline for each in shards.layouts} == {1, 2, 4, 8, 16}


def test_context_degrees_are_searched_where_asked() -> None:
    alone = search("llama-3.1-8b", 16)
    assert {layout.parallelism.context for layout in alone.layouts} == {1}
    asked = search("llama-3.1-8b", 16, asked={"contexts": [1, 2, 4]})
    assert {layout.parallelism.context for layout in asked.layouts} == {1, 2, 4}


def test_context_ranks_beyond_what_was_measured_are_warned_of() -> None:
    """Those on one or two nodes with 4,096 tokens each are as measured; on four nodes or with fewer they are not."""

    def warns(context: int, sequence_length: int) -> bool:
        training = {"sequence_length": sequence_length, "micro_batch_size": 1, "global_batch_size": 64}
        asked = {"contexts": [context], "objective": "step-time", "kept_degrees": ["tensor"]}
        found = search("llama-3.1-8b", 64, asked=asked, training=training, parallelism={"tensor": 2})
        assert found.layouts
        return any("context ranks on at most 2 nodes" in warning for warning in found.warnings)

    assert [warns(2, 8192), warns(8, 65536), warns(1, 2048)] == [False, False, False]
    assert [warns(2, 4096), warns(16, 131072)] == [True, True]


def test_context_ranks_share_sequences_evenly() -> None:
    found = search("llama-3.1-8b", 48, training=BATCH, asked={"contexts": [1, 2, 3]})
    assert {layout.parallelism.context for layout in found.layouts} == {1, 2}
    assert found.num_refused


def test_a_bare_count_says_that_activations_are_not_known() -> None:
    model = {"num_parameters": 8_000_000_000}
    found = LAYOUTS.answer(question("gpt2", 8, training=BATCH) | {"model": model})
    assert {(layout.recomputation, layout.activation_bytes) for layout in found.layouts} == {(None, None)}
    assert any("Activations not counted: only a number of parameters is given" in w for w in found.warnings)


def test_degrees_that_are_given_are_not_kept_and_that_is_said() -> None:
    given = {"tensor": 4, "pipeline": 2, "virtual_pipeline": 2}
    found = search("llama-3.1-8b", 64, parallelism=given)
    assert len({layout.parallelism.tensor for layout in found.layouts}) > 1
    assert "The scenario's tensor 4, pipeline 2 are ignored: the search tries all such degrees" in found.warnings
    assert not any("are ignored" in warning for warning in search("llama-3.1-8b", 64).warnings)


def test_only_even_stages_where_asked() -> None:
    found = search("llama-3.1-405b", 16 * 126, asked={"even_stages": True}, cluster={"node": "dgx-h200"})
    assert found.layouts
    assert all(126 % layout.parallelism.pipeline == 0 for layout in found.layouts)
    assert found.num_candidates < search("llama-3.1-405b", 16 * 126, cluster={"node": "dgx-h200"}).num_candidates


def test_where_nothing_fits_the_least_need_is_said() -> None:
    found = search("megatron-1t", 64)
    assert found.layouts == []
    assert found.min_memory is not None
    assert (found.min_memory.parallelism.tensor, found.min_memory.parallelism.pipeline) == (8, 8)
    nearest = question("megatron-1t", 64, parallelism={"tensor": 8, "pipeline": 8})
    assert found.min_memory.gpu_bytes == answer(scenario_from(nearest)).training.gpu_state_bytes
    assert any(
        "Does not fit on 64 GPUs: the nearest layout, tensor 8, pipeline 8, needs 287.1 GB" in w for w in found.warnings
    )


def test_contexts_that_do_not_divide_the_gpus_leave_nothing() -> None:
    found = search("gpt2", 9, asked={"contexts": [2]})
    assert (found.num_candidates, found.layouts) == (0, [])
    assert any("No degrees of 9 GPUs" in warning for warning in found.warnings)


def test_where_no_degrees_go_with_the_model_the_reason_is_said() -> None:
    found = search("gpt2", 13, training=BATCH | {"global_batch_size": 5})
    assert (found.num_refused, found.num_fitting, found.min_memory) == (found.num_candidates, 0, None)
    assert any("training.global_batch_size must be a multiple" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"scenario": {"model": {"preset": "gpt2"}}}, "scenario.cluster.num_gpus is required"),
        ({"scenario": question("gpt2", 8), "objective": "save-time"}, "scenario.storage is required for the objective"),
        ({"scenario": question("gpt2", 8), "objective": "bubble"}, "scenario.training.global_batch_size is required"),
        ({"scenario": question("gpt2", 8), "headroom_fraction": 1}, "headroom_fraction must be at most 0.9"),
        ({"scenario": question("gpt-5", 8)}, "scenario.model.preset must be a name of the catalog"),
        (
            {"scenario": question("gpt2", 8, cluster={"node": None, "node_spec": {"gpus_per_node": 8}})},
            "scenario.cluster.node_spec.gpu_memory_bytes is required",
        ),
        (
            {"scenario": question("gpt2", 8, training={"frozen": ["embeding"]})},
            "scenario.training.frozen must name weights of the model",
        ),
        (
            {"scenario": question("gpt2", 8, checkpoint={"format": "deepspeed"})},
            "scenario.checkpoint.format must be one of megatron",
        ),
        (
            {
                "scenario": question("deepseek-v3", 73_513_440, cluster={"node": "dgx-h100"}),
                "contexts": [*range(1, 16), 17],
                "expert_tensors": [1, 2, 4, 8],
            },
            "the search must have at most 20,000 candidates",
        ),
        (
            {"scenario": question("gpt2", 8, parallelism={"tensor": 3}), "kept_degrees": ["tensor"]},
            "scenario.cluster.num_gpus must be a multiple of tensor 3, got 8",
        ),
        (
            {"scenario": question("gpt2", 8, training={"offload": {"optimizer": "host"}}), "offload": False},
            "offload contradicts scenario.training.offload, which moves",
        ),
        ({"objective": "bubble", "scenario": 7}, "scenario must be an object"),
        *(
            ({"scenario": question("gpt2", 8), name: []}, f"{name} must have at least 1 entries")
            for name in ("contexts", "micro_batches", "virtual_pipelines")
        ),
        (
            {"scenario": question("gpt2", 8, training={"offload": {"optimizer_parameters_per_second": 5e-324}})},
            "offload.optimizer_parameters_per_second must be at least 1",
        ),
        (
            {"scenario": question("gpt2", 8), "kept_degrees": ["pipelines"]},
            "kept_degrees.0 must be one of 'tensor', 'pipeline', 'data', 'expert' or 'shard_group', got 'pipelines': "
            "did you mean pipeline.",
        ),
    ],
)
def test_questions_without_an_answer_are_refused(document: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        LAYOUTS.answer(document)
    assert sentence in str(caught.value)


def test_former_names_are_still_read() -> None:
    assert len(LAYOUTS.answer({"scenario": question("gpt2", 8), "most_layouts": 2}).layouts) == 2
    report = LAYOUTS.answer({"scenario": question("gpt2", 8), "max_layouts": 1})
    document = report.model_dump(mode="json")
    assert document["least_memory"] == document["min_memory"] is not None
    assert LayoutsReport.model_validate(document) == report
    former = {name: value for name, value in document.items() if name != "min_memory"}
    assert LayoutsReport.model_validate(former) == report


@pytest.mark.parametrize("checkpoint", [{}, {"reduction": {"compression": {"weights_fraction": 0.5}}}])
def test_a_checkpoint_is_as_large_as_answer_says_it_is_stored(checkpoint: dict[str, Any]) -> None:
    """Orbax compresses by itself: 93.0 % of 12 B of each of 8.03 billion parameters, with a reduction what that leaves."""
    document = question("llama-3.1-8b", 64, training={"framework": "maxtext"}, checkpoint=checkpoint)
    report = LAYOUTS.answer({"scenario": document})
    stored = decimal_bytes_text(answer(as_found(document, report.layouts[0])).stored_bytes)
    assert any(f"checkpoint {stored}" in remark for remark in layouts_summary(report).remarks)
    assert stored == "89.62 GB" if not checkpoint else stored != "96.36 GB"


def test_a_min_bandwidth_is_rounded_up_so_that_who_buys_it_has_enough() -> None:
    report = search("llama-3.1-70b", 64, asked={"max_layouts": 3}, checkpoint={"interval_seconds": "1h"})
    [required] = {layout.required_write_bytes_per_second for layout in report.layouts}
    [remark] = [text for text in layouts_summary(report).remarks if "min write bandwidth" in text]
    told = parse_bytes_per_second(remark.rpartition("(without goodput) ")[2].rstrip("."))
    assert 5.494e9 < (required or 0.0) < 5.4945e9
    assert told == 5.495e9


def test_a_scenario_alone_is_a_question() -> None:
    scenario = question("gpt2", 8)
    assert LAYOUTS.answer(scenario) == LAYOUTS.answer({"scenario": scenario})


def test_the_optimizer_is_divided_where_that_is_left_open() -> None:
    """Megatron-LM ships it undivided, with which the same degrees need more memory and a longer step."""
    training, options = BATCH | {"global_batch_size": 256}, {"objective": "step-time", "max_layouts": 1}
    [found] = search("llama-3.1-8b", 64, training=training, asked=options).layouts
    [whole] = search("llama-3.1-8b", 64, training=training | {"distributed_optimizer": False}, asked=options).layouts
    assert found.distributed_optimizer
    assert whole.distributed_optimizer is None
    assert (found.step_seconds or 0) < (whole.step_seconds or 0)


def test_a_global_batch_without_a_microbatch_searches_the_microbatch() -> None:
    training = {"sequence_length": 4096, "global_batch_size": 256}
    options = {"micro_batches": [2, 4], "max_layouts": 5}
    found = search("llama-3.1-8b", 64, training=training, asked=options)
    assert found.objective == "step-time"
    assert {layout.micro_batch_size for layout in found.layouts} <= {2, 4}
