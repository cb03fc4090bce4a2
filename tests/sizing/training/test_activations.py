"""Activations and schedules by the published formulas, evaluated as they are printed."""

import math
import re
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.model import Architecture, catalog
from sizing.published import published
from sizing.questions.answer.first_screen import first_screen
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.state import Training
from sizing.training.execution import execution_of
from sizing.training.gpu_memory import GpuMemory
from sizing.training.layer_activations import LayerShape, kept_without_modules, layer_activation_bytes
from sizing.training.memory_search import MAX_TRIED, MemoryQuestion
from sizing.training.schedules import SCHEDULES
from sizing.training.schedules.one_way import bubble_fraction
from sizing.training.schedules.schedule import PipelineShape

FACTS = published("training_techniques")
BY_SCHEDULE = {row["schedule"]: row for row in FACTS["pipeline_schedules"]}
PER_LAYER = FACTS["activation_bytes_per_layer"]["formulas"]


def architecture(name: str) -> Architecture:
    found = catalog()[name].architecture
    assert found is not None
    return found


GPT3, MT_NLG, LLAMA, MIXTRAL, DEEPSEEK = map(
    architecture, ("gpt3-175b", "megatron-530b", "llama-3.1-8b", "mixtral-8x7b", "deepseek-v3")
)


def evaluated(formula: str, **symbols: float) -> float:
    """A formula as printed, in which symbols that stand side by side are multiplied."""
    code = re.sub(r"(?<=[\w)])\s+(?=[\w(])", "*", formula)
    return float(eval(code, {"ceil": math.ceil, "min": min}, symbols))  # noqa: S307 - our own file


def layer_bytes(a: Architecture, *, tensor: int = 1, context: int = 1, sequence: int = 2048, **training: Any) -> float:
    degrees = Parallelism(tensor=tensor, context=context)
    step = Training(sequence_length=sequence, micro_batch_size=2, **training)
    execution = execution_of(step, degrees)
    assert execution is not None
    shape = LayerShape(a, degrees, 2)
    kept = shape.dense if a.num_experts is None else shape.sparse
    return layer_activation_bytes(kept, hidden_bytes=shape.hidden_bytes, execution=execution)[0]


def report_of(model: str = "gpt3-175b", **blocks: Any) -> SizingReport:
    return answer(scenario_from({"model": {"preset": model}} | blocks))


@pytest.mark.parametrize(
    ("case", "tensor", "training"),
    [
        ("none", 1, {"recomputation": "none", "attention": "eager"}),
        ("tensor", 8, {"recomputation": "none", "attention": "eager", "sequence_parallel": False}),
        ("tensor_sequence", 8, {"recomputation": "none", "attention": "eager", "sequence_parallel": True}),
        ("tensor_selective", 8, {"recomputation": "selective", "sequence_parallel": False}),
        ("tensor_sequence_selective", 8, {"recomputation": "selective"}),
        ("full_recompute", 8, {"recomputation": "full", "sequence_parallel": False}),
    ],
)
@pytest.mark.parametrize("model", [GPT3, MT_NLG], ids=["gpt3", "mt-nlg"])
def test_a_layer_of_gpt_keeps_what_the_paper_counts(
    model: Architecture, case: str, tensor: int, training: dict[str, Any]
) -> None:
    truth = evaluated(PER_LAYER[case], s=2048, b=2, h=model.hidden_size, a=model.num_attention_heads, t=tensor)
    assert layer_bytes(model, tensor=tensor, **training) == truth


def test_a_gated_layer_without_dropout_keeps_three_inner_tensors_and_no_masks() -> None:
    hidden, inner, key_value = 4096, 14336, 1024
    values = 4 * hidden + 2 * hidden + 2 * key_value + 3 * inner
    assert layer_bytes(LLAMA) == 2 * 2 * 2048 * values
    assert layer_bytes(LLAMA, recomputation="none") == layer_bytes(LLAMA), "FlashAttention keeps no scores"
    with_scores = layer_bytes(LLAMA, recomputation="none", attention="eager")
    assert with_scores - layer_bytes(LLAMA) == 2 * 32 * 2 * 2048**2


def test_keys_and_values_are_not_cut_below_a_head() -> None:
    """Sixteen tensor ranks of eight heads of keys and values keep a whole head each."""
    per_token = (4 * 4096 + 2 * 4096 + 3 * 14336) / 16 + 2 * 128
    assert layer_bytes(LLAMA, tensor=16) == 2 * 2 * 2048 * per_token


def test_a_token_is_kept_by_each_expert_that_it_passes_through() -> None:
    """Of Mixtral's eight experts a token sees two, each with its own copy of the input.

    Megatron-Core multiplies by an expert's weight in the activation (core/transformer/moe/experts.py,
    weighted_bias_swiglu_impl), so that no backward pass needs the expert's result.
    """
    hidden, inner, key_value = 4096, 14336, 1024
    values = 4 * hidden + 2 * hidden + 2 * key_value + 2 * (3 * inner + hidden)
    assert layer_bytes(MIXTRAL) == 2 * 2 * 2048 * values


def test_latent_attention_keeps_its_latents_and_full_heads() -> None:
    """DeepSeek-V3, arXiv 2412.19437, section 4.2: 128 heads of 128 + 64 and 128, latents 1,536 and 512, 8 experts."""
    latents = 2 * 1_536 + 2 * 512 + 64
    heads = 128 * (2 * (128 + 64) + 2 * 128)
    experts = 3 * 2_048 + 8 * (3 * 2_048 + 7_168)
    assert layer_bytes(DEEPSEEK) == 2 * 2 * 2048 * (4 * 7_168 + latents + heads + experts)


def test_deepseek_keeps_what_its_report_does_not_compute_again() -> None:
    """arXiv 2412.19437, sections 3.2.3 and 3.3.3: norms, up-projections and SwiGLU again; inputs of products in FP8."""
    modules = kept_without_modules(("core-attn", "layernorm", "mla-up-proj", "moe-act"))
    kept = LayerShape(DEEPSEEK, Parallelism(), 2, cached_bytes=1.0).selected(modules, is_sparse=True)
    hidden, inner = 7168, 2048
    norms, latents, results = 2 * 2 * hidden, 2 * (1536 + 512 + 64), (2 + 1) * 128 * 128
    shared, routed = (2 + 2 + 1) * inner, 8 * (hidden + 2 * inner)
    assert kept.split + kept.whole == norms + latents + results + shared + routed


def test_selective_recomputation_of_experts_keeps_all_but_scores_unless_modules_are_named() -> None:
    """Megatron-LM's --recompute-modules is core_attn where it is not given."""
    memory = {}
    batch: dict[str, object] = {"micro_batch_size": 1, "sequence_length": 4096}
    settings: dict[str, dict[str, object]] = {
        "none": {"recomputation": "none"},
        "default": {},
        "norms": {"recompute_modules": ["layernorm"]},
        "all": {"recompute_modules": ["layernorm", "mla_up_proj", "moe_act"]},
    }
    for name, training in settings.items():
        report = answer(
            scenario_from(
                {
                    "model": {"preset": "deepseek-v3"},
                    "training": batch | training,
                    "parallelism": {"data": 64, "expert": 64, "pipeline": 1},
                }
            )
        )
        memory[name] = report.training.activation_bytes or 0
    assert memory["default"] == memory["none"] > memory["norms"] > memory["all"]


def test_inputs_of_quantized_products_are_kept_in_8_bits() -> None:
    bf16, fp8 = (LayerShape(LLAMA, Parallelism(), 2, cached_bytes=each).dense for each in (None, 1.0))
    hidden, inner = 4096, 14_336
    halved, result_of_attention = 2 * hidden + inner, hidden
    assert bf16.split + bf16.whole - fp8.split - fp8.whole == halved - result_of_attention


def test_a_module_that_predicts_further_tokens_is_a_layer_with_a_head_on_the_last_stage() -> None:
    a = DEEPSEEK
    kept = []
    for num_modules in (None, 1):
        model = {"architecture": a.model_copy(update={"num_mtp_layers": num_modules}).model_dump()}
        report = answer(
            scenario_from(
                {"model": model, "training": BATCH | {"recomputation": "none"}, "parallelism": {"data": 8, "expert": 8}}
            )
        )
        kept.append(report.training.activation_bytes or 0)
    of_head = 2_048 * (4 * 7_168 + 4 * a.vocab_size)
    assert kept[1] - kept[0] == layer_bytes(a, recomputation="none") / 2 + of_head


def test_context_ranks_share_a_sequence() -> None:
    for recomputation in ("none", "selective", "full"):
        whole = layer_bytes(LLAMA, recomputation=recomputation, sequence=8192)
        assert layer_bytes(LLAMA, recomputation=recomputation, sequence=8192, context=4) == whole / 4


@pytest.mark.parametrize("check", FACTS["pipeline_checks"], ids=str)
def test_bubbles_are_as_published(check: dict[str, float]) -> None:
    p, m = int(check["p"]), int(check["m"])
    share = bubble_fraction(num_stages=p, num_microbatches=m)
    assert share == pytest.approx(check["share_of_total"], rel=5e-3)
    assert share / (1 - share) == pytest.approx(check["share_of_ideal"], rel=5e-3)
    assert share == pytest.approx(evaluated(BY_SCHEDULE["gpipe"]["bubble"], p=p, m=m))


@pytest.mark.parametrize(("p", "v", "m"), [(8, 2, 64), (4, 5, 8), (64, 2, 512)])
def test_interleaving_is_as_published(p: int, v: int, m: int) -> None:
    row = BY_SCHEDULE["interleaved 1f1b"]
    of_ideal = evaluated(row["bubble"].removesuffix(" of ideal time"), p=p, v=v, m=m)
    assert bubble_fraction(num_stages=p, num_chunks=v, num_microbatches=m) == pytest.approx(of_ideal / (1 + of_ideal))
    held = SCHEDULES["interleaved"].in_flight_microbatches(PipelineShape(p, m, v), 0)
    assert held == pytest.approx(p * (1 + (p - 1) / (p * v)))
    assert math.ceil(held) == evaluated(row["in_flight"], p=p, v=v)


@pytest.mark.parametrize("m", [4, 8, 32])
def test_microbatches_in_flight_are_as_published(m: int) -> None:
    first, per_stage = BY_SCHEDULE["1f1b / dapple"]["in_flight"].split("; stage i: ")
    assert SCHEDULES["1f1b"].in_flight_microbatches(PipelineShape(8, m), 0) == evaluated(first, p=8, m=m)
    for i in range(8):
        held = SCHEDULES["1f1b"].in_flight_microbatches(PipelineShape(8, 32), i)
        assert held == evaluated(per_stage, p=8, i=i)
    assert SCHEDULES["gpipe"].in_flight_microbatches(PipelineShape(8, m), 3) == m


BATCH = {"sequence_length": 2048, "micro_batch_size": 1}
DEGREES = {"tensor": 8, "pipeline": 8, "data": 16}


def test_one_stage_holds_the_paper_s_total() -> None:
    """One stage: s b h L/t (34 + 4/L (1 + v/h)), and a mask for the embedding's dropout."""
    report = report_of(training=BATCH, parallelism={"tensor": 8})
    s, h, layers, vocabulary = 2048, 12_288, 96, 51_200
    assert report.training.activation_bytes == round(s * h / 8 * (34 * layers + 1 + 4 * (1 + vocabulary / h)))


def test_without_a_batch_nothing_is_said_of_activations() -> None:
    plain, with_batch = report_of(parallelism=DEGREES), report_of(parallelism=DEGREES, training=BATCH)
    assert plain.training.total_bytes is plain.training.fits is plain.training.bubble_fraction is None
    assert with_batch.training.gpu_state_bytes == plain.training.gpu_state_bytes
    assert with_batch.checkpoint == plain.checkpoint
    assert with_batch.training.bubble_fraction is None, "without a global batch"


def test_the_fullest_stage_is_that_of_most_state_and_activations_together() -> None:
    """Of 1f1b's stages the first holds most microbatches; with gpipe they all hold as many."""
    steps = report_of(parallelism=DEGREES, training=BATCH | {"global_batch_size": 512})
    assert (steps.training.fullest_stage, steps.training.in_flight_microbatches) == (0, 8)
    assert steps.training.num_microbatches == 32
    flush = report_of(parallelism=DEGREES, training=BATCH | {"global_batch_size": 512, "schedule": "gpipe"})
    assert flush.training.in_flight_microbatches == 32
    assert flush.training.fits is False


def test_a_layout_that_cannot_run_is_told_which_recomputation_can() -> None:
    training = BATCH | {"recomputation": "none", "sequence_parallel": False}
    report = report_of(parallelism=DEGREES, training=training, cluster={"node": "dgx-a100"})
    assert report.training.state_fits
    assert report.training.fits is False
    (warning,) = [warning for warning in report.warnings if "cannot run" in warning]
    assert "The nearest layout that fits is tensor 8, pipeline 8, data 16 and recomputation full" in warning


def test_a_layout_that_cannot_run_is_told_the_nearest_degrees_that_can() -> None:
    report = report_of(parallelism={"tensor": 8, "pipeline": 2, "data": 8}, training=BATCH)
    (warning,) = [warning for warning in report.warnings if "cannot run" in warning]
    nearest = {"tensor": 8, "pipeline": 8, "data": 2}
    assert "The nearest layout that fits is tensor 8, pipeline 8, data 2 and recomputation selective" in warning
    assert report_of(parallelism=nearest, training=BATCH).training.fits


def remedy_for(model: str = "llama-3.1-70b", **blocks: Any) -> str:
    """What the one warning of a layout that cannot run tells its reader to do."""
    [warning] = [warning for warning in report_of(model, **blocks).warnings if "cannot run" in warning]
    return warning.split("cannot run. ")[1]


def test_the_nearest_leaves_the_headroom_of_the_layout_search_free() -> None:
    batch = BATCH | {"sequence_length": 8192}
    remedy = remedy_for("llama-3.1-8b", parallelism={"data": 64}, training=batch)
    assert remedy.endswith(". The nearest layout that fits is tensor 4, data 16 and recomputation selective: 47.25 GB")
    nearer = {"parallelism": {"tensor": 2, "data": 32}, "training": batch | {"recomputation": "full"}}
    assert 72e9 < (report_of("llama-3.1-8b", **nearer).training.total_bytes or 0) < 80e9


@pytest.mark.parametrize(
    ("training", "parallelism", "nearest"),
    [
        ({}, {"data": 64}, "tensor 8, pipeline 4, data 2: 40.87 GB"),
        ({"framework": "deepspeed"}, {"data": 64}, "data 64, zero stage 3: 17.64 GB"),
        ({"framework": "fsdp2"}, {"data": 64, "shard_group": 2}, "data 64, shard group 16: 70.55 GB"),
    ],
)
def test_what_is_nearest_is_of_its_framework(
    training: dict[str, Any], parallelism: dict[str, Any], nearest: str
) -> None:
    remedy = remedy_for(training=training, parallelism=parallelism)
    assert remedy.startswith(f"The nearest layout that fits is {nearest}")


def test_where_no_degrees_can_the_least_need_is_said() -> None:
    remedy = remedy_for("megatron-1t", parallelism={"tensor": 4, "data": 3}, training=BATCH | {"micro_batch_size": 2})
    assert "No degrees tried on these GPUs fit with 10.0 % headroom; the nearest, tensor 4, pipeline 3" in remedy
    assert remedy.endswith("Use more GPUs in whole nodes of 8, a smaller micro_batch_size, or run ckpt-size layouts")
    alone = remedy_for("llama-3.1-405b", parallelism={"data": 64}, training={"framework": "fsdp2"})
    assert "data 64, needs 101.5 GB. With training.offload.optimizer host" in alone
    assert alone.endswith(" in host memory. Use more GPUs, or run ckpt-size layouts")


OFFLOADED = re.compile(r"training\.offload\.(optimizer|weights) (host|nvme)")


@pytest.mark.parametrize(
    ("training", "parallelism", "remedy"),
    [
        (
            {"framework": "fsdp2"},
            {"data": 16},
            "With training.offload.optimizer host and training.offload.weights host, data 16 fits: "
            "36.76 GB on the fullest GPU, and a node keeps 934.6 GB in host memory",
        ),
        (
            {"framework": "deepspeed"},
            {"data": 16, "zero_stage": 3},
            "With training.offload.optimizer host, data 16, zero stage 3 fits",
        ),
        (
            {"framework": "megatron", "distributed_optimizer": True},
            {"tensor": 8, "pipeline": 2},
            "With training.offload.optimizer host, tensor 8, pipeline 2 fits",
        ),
    ],
)
def test_what_may_leave_the_gpu_is_named_where_no_degrees_help_and_does(
    training: dict[str, Any], parallelism: dict[str, Any], remedy: str
) -> None:
    """116.8 billion parameters in fp32 with two moments and a gradient are 16 bytes each, over two nodes."""
    model = {"preset": "gpt-oss-120b"}
    document = {"model": model, "training": training, "parallelism": parallelism}
    said = answer(scenario_from(document)).training.remedy
    assert said is not None
    assert remedy in said
    moved = training | {"offload": dict(OFFLOADED.findall(said))}
    after = answer(scenario_from(document | {"training": moved}))
    assert (after.training.state_fits, after.training.cannot_run) == (True, None)
    [on_gpu] = (row.figure for row in first_screen(after).figures if row.label == "GPU memory")
    assert f" fits: {on_gpu} on the fullest GPU, and a node keeps" in said


def test_no_offload_is_named_that_host_memory_does_not_hold() -> None:
    document = {"model": {"preset": "gpt-oss-120b"}, "training": {"framework": "fsdp2"}, "parallelism": {"data": 16}}
    node = {"gpus_per_node": 8, "gpu_memory_bytes": "80 GB", "host_memory_bytes": "900 GB"}
    said = answer(scenario_from(document | {"cluster": {"node_spec": node}})).training.remedy
    assert said is not None
    assert "offload" not in said


def test_the_nearest_is_sought_among_few_whatever_could_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of 10,000 layers and 5,040 experts has 100,000 layouts on as many GPUs."""
    tried: list[Parallelism] = []
    asked = MemoryQuestion.memory

    def memory(question: MemoryQuestion, parallelism: Parallelism, **room: Any) -> GpuMemory:
        tried.append(parallelism)
        return asked(question, parallelism, **room)

    monkeypatch.setattr(MemoryQuestion, "memory", memory)
    width = 5_040 * 256
    shape = {
        "family": "qwen3",
        "tied_embeddings": True,
        "hidden_size": 1024,
        "num_layers": 10_000,
        "num_attention_heads": 256,
        "head_dim": 64,
        "vocab_size": 1024,
        "ffn_hidden_size": width,
        "num_experts": 5_040,
        "num_experts_per_token": 8,
        "expert_ffn_hidden_size": width,
    }
    node = {"gpus_per_node": 240, "gpu_memory_bytes": "1 GB"}
    document = {"model": {"architecture": shape}, "parallelism": {"data": 720_720}, "cluster": {"node_spec": node}}
    report = answer(scenario_from(document | {"training": BATCH, "checkpoint": {"format": "torch-dist"}}))
    assert any("No degrees tried" in warning for warning in report.warnings)
    assert 50 < len(tried) <= MAX_TRIED + 1


def test_a_bare_count_has_no_activations_and_says_so() -> None:
    report = answer(scenario_from({"model": {"num_parameters": 8_000_000_000}, "training": BATCH}))
    assert (report.training.total_bytes, report.training.recomputation) == (None, None)
    assert any("Activations not counted" in warning for warning in report.warnings)


def test_what_a_step_is_taken_to_do_is_said() -> None:
    assumed = {a.field: a.value for a in report_of(parallelism=DEGREES, training=BATCH).assumptions}
    assert assumed["training.recomputation"] == "selective"
    assert assumed["training.schedule"] == "1f1b"
    assert assumed["training.sequence_parallel"] is True


@pytest.mark.parametrize(
    ("training", "parallelism", "sentence"),
    [
        ({"micro_batch_size": 1}, {}, "training has micro_batch_size without sequence_length"),
        ({"sequence_length": 1}, {}, "training has sequence_length without micro_batch_size"),
        ({"schedule": "1f1b"}, {}, "training has schedule without micro_batch_size"),
        (BATCH, {"context": 3}, "training.sequence_length must be a multiple of parallelism.context 3"),
        (BATCH | {"global_batch_size": 7}, {"data": 2}, "training.global_batch_size must be a multiple of"),
        (BATCH | {"schedule": "gpipe"}, {}, "training.global_batch_size is required with schedule gpipe"),
        (BATCH | {"schedule": "interleaved"}, {}, "training.schedule must be interleaved with virtual_pipeline > 1"),
        (
            BATCH | {"global_batch_size": 5},
            {"pipeline": 4, "virtual_pipeline": 2},
            "training.global_batch_size must give a multiple of pipeline 4 microbatches",
        ),
    ],
)
def test_steps_that_cannot_be_are_refused(training: dict[str, Any], parallelism: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        report_of(training=training, parallelism=parallelism)
    assert sentence in str(caught.value)


REPLICATED = {"model": {"preset": "llama-3.1-8b"}, "cluster": {"num_gpus": 16}}
"""8.03 billion parameters, of which each replica of DDP holds 16 bytes each: 128.5 GB, on GPUs of 80 GB."""


@pytest.mark.parametrize("framework", ["transformers", "accelerate", "lightning"])
@pytest.mark.parametrize("parallelism", [{}, {"data": 16}])
def test_what_each_replica_holds_fits_once_it_is_divided_as_said(framework: str, parallelism: dict[str, Any]) -> None:
    document = REPLICATED | {"training": {"framework": framework}, "parallelism": parallelism}
    said = answer(document).training.remedy
    assert said is not None
    found = re.match(r"With parallelism\.shard_group (\d+), as FSDP divides the state, it needs ", said)
    assert found is not None, said
    divided = {"data": 16, "shard_group": int(found[1])}
    after = answer(document | {"training": {"framework": framework}, "parallelism": divided})
    assert (after.training.state_fits, after.training.cannot_run) == (True, None)


def test_plain_ddp_whose_file_holds_no_shards_is_led_to_fsdp() -> None:
    document = REPLICATED | {"training": {"framework": "ddp"}}
    said = answer(document).training.remedy
    assert said == "Divide the state with training.framework fsdp2 over these or more GPUs, or other nodes"
    assert answer(document | {"training": {"framework": "fsdp2"}}).training.cannot_run is None


def test_what_is_too_large_even_when_divided_needs_more_gpus_too() -> None:
    document = REPLICATED | {"model": {"preset": "llama-3.1-405b"}, "training": {"framework": "transformers"}}
    said = answer(document).training.remedy
    assert said == "Divide the state by parallelism.shard_group over these or more GPUs, or other nodes"
