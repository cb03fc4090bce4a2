"""Formats: who writes which bytes, what is read again, and what the data-parallel degree never changes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.layout.formats import FORMATS, formats_of
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.sized_layout import every_file_of, manifest_of, size_layout, workload_anew
from tests.examples import examples
from tests.sizing.layout.worlds import MIXTURE, TIED, degrees
from tests.sizing.layout.worlds import training as trained


def report_of(name: str, model: dict[str, Any], training: dict[str, Any] | None = None, **degrees: Any) -> SizingReport:
    saved_as = FORMATS[name]
    return answer(
        scenario_from(
            {
                "model": model,
                "training": trained(saved_as, saved_as.frameworks[0]) | (training or {}),
                "parallelism": degrees,
                "checkpoint": {"format": name},
            }
        )
    )


@pytest.mark.parametrize("name", [each.name for each in formats_of("megatron") if each.name != "fsdp-dtensor"])
@given(data=st.data())
@examples(25)
def test_with_megatron_the_logical_bytes_are_14_per_parameter(name: str, data: st.DataObject) -> None:
    report = report_of(name, {"architecture": MIXTURE}, {"framework": "megatron"}, **data.draw(degrees(FORMATS[name])))
    assert report.checkpoint.logical_bytes == 14 * report.model.num_parameters


@pytest.mark.parametrize("name", ["fsdp-sharded", "full", "fsdp-dtensor"])
@given(data=st.data())
@examples(25)
def test_with_fsdp_the_logical_bytes_are_12_per_parameter(name: str, data: st.DataObject) -> None:
    report = report_of(name, {"architecture": MIXTURE}, **data.draw(degrees(FORMATS[name])))
    assert report.checkpoint.logical_bytes == 12 * report.model.num_parameters


@given(data=st.data())
@examples(50)
def test_zero_3_alone_saves_no_weights_beside_the_master_copy(data: st.DataObject) -> None:
    drawn = data.draw(degrees(FORMATS["deepspeed"]))
    report = report_of("deepspeed", {"architecture": MIXTURE}, **drawn)
    assert report.checkpoint.logical_bytes == (12 if drawn["zero_stage"] == 3 else 14) * report.model.num_parameters


@pytest.mark.parametrize("name", ["torch-dist", "fsdp-sharded", "full"])
def test_a_distributed_checkpoint_holds_each_tensor_once(name: str) -> None:
    degrees: dict[str, Any] = {"tensor": 4, "pipeline": 4, "data": 4} if name == "torch-dist" else {"data": 8}
    assert report_of(name, {"preset": "gpt3-175b"}, **degrees).checkpoint.replicated_bytes == 0


def test_deepseek_v3_in_legacy_megatron_files_repeats_dense_weights_per_expert_rank() -> None:
    report = report_of("megatron", {"preset": "deepseek-v3"}, pipeline=16, expert=64, data=64)
    size = report.checkpoint
    assert size.num_files == 1024
    assert size.logical_bytes == pytest.approx(9.39e12, rel=1e-3)
    assert size.total_bytes == pytest.approx(24.5e12, rel=1e-3)


def test_llama_405b_with_a_distributed_optimizer_reads_weights_again_and_the_optimizer_once() -> None:
    degrees: dict[str, Any] = {"tensor": 8, "pipeline": 16, "data": 128}
    report = report_of("megatron-distributed-optimizer", {"preset": "llama-3.1-405b"}, **degrees)
    assert report.restore.read_bytes == pytest.approx(108.8e12, rel=1e-3)
    readings = {name: part.num_readings for name, part in report.restore.parts.items()}
    assert readings == {"weights": 128, "master": 1, "moments": 1}
    classic = report_of("megatron", {"preset": "llama-3.1-405b"}, **degrees)
    assert classic.restore.read_bytes == pytest.approx(727e12, rel=1e-3)


@pytest.mark.parametrize(
    ("is_distributed", "sharding", "readings"),
    [(False, None, 128), (True, "fully-reshardable", 128), (True, "dp-reshardable", 1), (True, None, 1)],
)
def test_the_shares_of_a_distributed_optimizer_are_read_once_and_whole_tensors_by_each_replica(
    is_distributed: bool, sharding: str | None, readings: int
) -> None:
    """A gathered optimizer is dealt as one that is not distributed; each replica then reads all of it."""
    degrees: dict[str, Any] = {"tensor": 8, "pipeline": 16, "data": 128}
    model = {"preset": "llama-3.1-405b"}
    training = {"distributed_optimizer": is_distributed}
    report = torch_dist(model, training, {"optimizer_sharding": sharding}, **degrees)
    plain = torch_dist(model, {}, {}, **degrees)
    assert (report.layout == plain.layout) == (readings == 128)
    assert report.checkpoint.logical_bytes == plain.checkpoint.logical_bytes
    parts = report.restore.parts
    found = {name: parts[name].num_readings for name in ("weights", "master", "moments")}
    assert found == {"weights": 128, "master": readings, "moments": readings}
    parameters = 405_853_388_800
    optimizer = readings * 12 * parameters
    read = sum(parts[name].read_bytes for name in found)
    assert read == pytest.approx(128 * 2 * parameters + optimizer, rel=1e-3)
    state = 6 + 12 / (128 if is_distributed else 1)
    assert report.training.gpu_state_bytes == pytest.approx(state * parameters / 128, rel=0.1)


@pytest.mark.parametrize("name", [each.name for each in formats_of("megatron") if each.name != "fsdp-dtensor"])
def test_whether_the_optimizer_is_distributed_never_follows_from_the_format(name: str) -> None:
    saved_as = FORMATS[name]
    report = report_of(name, {"preset": "llama-3.1-8b"}, data=8)
    shards = saved_as.needs_distributed_optimizer
    state = (6 + 12 / 8 if shards else 18) * report.model.num_parameters
    assert report.training.gpu_state_bytes == pytest.approx(state)
    unsaid = [row for row in report.assumptions if row.field == "training.distributed_optimizer"]
    assert [row.value for row in unsaid] == ([] if shards or name == "megatron" else [False])


def torch_dist(
    model: dict[str, Any], training: dict[str, Any], checkpoint: dict[str, Any], **degrees: Any
) -> SizingReport:
    blocks = {"model": model, "training": training, "parallelism": degrees}
    return answer(scenario_from(blocks | {"checkpoint": {"format": "torch-dist"} | checkpoint}))


def test_in_a_distributed_checkpoint_every_rank_writes_what_its_stage_deals_it() -> None:
    report = report_of("torch-dist", {"preset": "llama-3.1-70b"}, tensor=4, pipeline=4, data=8)
    layout = report.layout
    assert layout.num_writers == layout.num_gpus == 128
    assert layout.num_writing_nodes == 16
    assert layout.largest_over_mean < 1.1


DISTRIBUTED = {"distributed_optimizer": True}


def test_tied_embeddings_keep_the_optimizer_on_both_end_stages_in_shares_alone() -> None:
    """The weights stand once; the shares are of buffers that each end stage has. Of norms each tensor rank has one."""
    model = {"architecture": TIED}
    for sharding, copies in (("fully-reshardable", 1), ("dp-reshardable", 2)):
        size = torch_dist(model, DISTRIBUTED, {"optimizer_sharding": sharding}, pipeline=2, data=3).checkpoint
        assert size.parts["weights"].replicated_bytes == 0
        assert size.parts["master"].replicated_bytes == (copies - 1) * 4 * 101 * 48
        assert size.parts["moments"].replicated_bytes == (copies - 1) * 8 * 101 * 48
    norms = torch_dist(model, DISTRIBUTED, {}, tensor=4, data=2).checkpoint.replicated
    assert {row.tensors: row.replicated_bytes for row in norms}["norm"] == 3 * 12 * 48 * 2 * 7


def test_the_bytes_of_a_bare_count_are_shared_evenly() -> None:
    layout = torch_dist({"num_parameters": 10**9}, {}, {}, tensor=2, data=8).layout
    assert {ranks.bytes_per_rank for ranks in layout.rank_classes} == {14 * 10**9 // 16}


def test_ranks_that_are_dealt_nothing_write_no_file() -> None:
    """Without momentum a layer has 2 x 5 shards on each of 4 tensor ranks, and 2 x 2 norms on the first of them."""
    layout = torch_dist({"architecture": TIED}, {"optimizer": "sgd"}, {}, tensor=4, pipeline=7, data=16).layout
    writers = {stages: sum(c.num_ranks for c in layout.rank_classes if c.stages == stages) for stages in ("1-5",)}
    assert writers == {"1-5": 5 * (3 * 10 + 14)}


def test_shares_are_read_into_other_replicas_alone_and_whole_tensors_into_any_layout() -> None:
    degrees = {"tensor": 2, "pipeline": 2, "data": 4}
    model = {"preset": "llama-3.1-8b"}
    for into in ({"tensor": 2, "pipeline": 2, "data": 16}, {"tensor": 4, "data": 1}):
        checkpoint = {"restore_parallelism": into, "optimizer_sharding": "fully-reshardable"}
        assert torch_dist(model, DISTRIBUTED, checkpoint, **degrees).restore.read_bytes > 0
    torch_dist(model, DISTRIBUTED, {"restore_parallelism": degrees | {"data": 16}}, **degrees)
    with pytest.raises(InvalidInput, match="whose files cannot be resharded") as caught:
        torch_dist(model, DISTRIBUTED, {"restore_parallelism": degrees | {"tensor": 4}}, **degrees)
    assert "fully-reshardable" in str(caught.value)


def test_how_an_optimizer_is_sharded_is_refused_where_it_is_not() -> None:
    with pytest.raises(InvalidInput, match=r"checkpoint\.optimizer_sharding is how a distributed optimizer is saved"):
        torch_dist({"preset": "gpt2"}, {}, {"optimizer_sharding": "dp-reshardable"}, data=2)


@pytest.mark.parametrize(
    ("degrees", "files"),
    [
        ({"tensor": 2, "expert": 2, "expert_tensor": 1, "data": 4}, {"00_000", "01_001"}),
        ({"tensor": 2, "expert": 4, "expert_tensor": 1, "data": 4}, {"00_000", "00_002", "01_001", "01_003"}),
        ({"tensor": 4, "expert": 2, "expert_tensor": 1, "data": 2}, {"00_000", "01_001", "02_000", "03_001"}),
    ],
)
def test_legacy_files_are_of_tensor_and_expert_ranks_that_stand_together(
    degrees: dict[str, int], files: set[str]
) -> None:
    """As Megatron-Core 0.16.1 names them, seen in real saves."""
    document = {
        "model": {"preset": "mixtral-8x7b"},
        "parallelism": degrees,
        "checkpoint": {"format": "megatron"},
    }
    found = {row.file for row in manifest_of(scenario_from(document))}
    assert found == {f"mp_rank_{each}/model_optim_rng.pt" for each in files}


@pytest.mark.parametrize(
    "degrees", [{"tensor": 1, "expert_tensor": 2, "data": 2}, {"tensor": 6, "expert_tensor": 1, "expert": 8, "data": 8}]
)
def test_legacy_files_that_two_ranks_would_overwrite_are_refused(degrees: dict[str, int]) -> None:
    document = {
        "model": {"architecture": MIXTURE | {"num_attention_heads": 12}},
        "parallelism": degrees,
        "checkpoint": {"format": "megatron"},
    }
    with pytest.raises(InvalidInput, match=r"parallelism\.expert_tensor must be at most tensor"):
        answer(scenario_from(document))


def test_older_megatron_wrote_two_files_per_rank() -> None:
    document = {
        "model": {"preset": "llama-3.1-8b"},
        "parallelism": {"data": 8},
        "checkpoint": {"format": "torch-dist", "files_per_rank": 2},
    }
    assert answer(scenario_from(document)).checkpoint.num_rank_files == 16


_OF_TRAINER = {"scheduler.pt": 1465, "trainer_state.json": 1064, "training_args.bin": 5265}


@pytest.mark.parametrize(
    ("framework", "ranks", "blocks", "small"),
    [
        ("transformers", 1, {}, _OF_TRAINER | {"rng_state.pth": 14_469}),
        ("transformers", 2, {}, _OF_TRAINER | {"rng_state_0.pth": 14_469, "rng_state_1.pth": 14_469}),
        ("axolotl", 1, {}, _OF_TRAINER | {"rng_state.pth": 14_469}),
        (
            "transformers",
            1,
            {"precision": "fp16-mixed"},
            _OF_TRAINER | {"rng_state.pth": 14_469, "scaler.pt": 1383},
        ),
        (
            "transformers",
            2,
            {"saved_state": {"weights_alone": True}},
            {name: _OF_TRAINER[name] for name in ("trainer_state.json", "training_args.bin")},
        ),
        ("accelerate", 1, {}, {"scheduler.bin": 1401, "random_states_0.pkl": 14_497}),
        (
            "accelerate",
            2,
            {},
            {"scheduler.bin": 1401, "random_states_0.pkl": 14_497, "random_states_1.pkl": 14_497},
        ),
        ("accelerate", 2, {"saved_state": {"weights_alone": True}}, {}),
        ("lightning", 2, {}, {}),
    ],
)
def test_trainers_write_small_files_beside_and_one_of_each_rank(
    framework: str, ranks: int, blocks: dict[str, Any], small: dict[str, int]
) -> None:
    """Files of real runs of transformers 5.23 and accelerate 1.15 on CPUs, without the model's config."""
    document = {
        "model": {"preset": "gpt2"},
        "training": {"framework": framework, **blocks},
        "parallelism": {"data": ranks},
    }
    scenario = scenario_from(document)
    size, of_ranks = answer(scenario).checkpoint, [row.file for row in manifest_of(scenario)]
    rows = {row.file: row.container_bytes for row in every_file_of(scenario)}
    assert rows.keys() == {*of_ranks, *small}
    assert {name: rows[name] for name in small} == small
    assert size.num_files == len(of_ranks) + len(small)
    counted = {name: num_bytes for name, num_bytes in size.small_state_bytes.items() if "." in name}
    assert sum(counted.values()) == sum(small.values())


@pytest.mark.parametrize(("zero_stage", "files", "optimizer_writers"), [(0, 1, 1), (1, 5, 4), (2, 5, 4), (3, 8, 4)])
def test_deepspeed_writes_a_file_of_weights_and_an_optimizer_file_per_rank(
    zero_stage: int, files: int, optimizer_writers: int
) -> None:
    """Four ranks, as measured: one model file and four optimizer files with ZeRO-1; a pair per rank with ZeRO-3."""
    report = report_of("deepspeed", {"preset": "gpt2"}, data=4, zero_stage=zero_stage)
    assert report.checkpoint.num_files == files
    assert report.layout.num_writers == optimizer_writers


def test_zero_3_has_fragments_of_frozen_weights_beside_the_optimizer() -> None:
    """Each of four ranks a quarter of GPT-2's 50,257 x 768 bf16 token embeddings, in the file that is else empty."""
    report = report_of("deepspeed", {"preset": "gpt2"}, {"frozen": ["embedding"]}, data=4, zero_stage=3)
    frozen = 50_257 * 768
    for ranks in report.layout.rank_classes:
        assert {file.name: file.num_bytes for file in ranks.files} == {
            "zero_pp_rank_D_mp_rank_MM_model_states.pt": 2 * frozen // 4,
            "bf16_zero_pp_rank_D_mp_rank_MM_optim_states.pt": 12 * (124_439_808 - frozen) // 4,
        }


@pytest.mark.parametrize(
    ("zero_stage", "bytes_of_part"),
    [
        (0, {"weights": 4, "moments": 8}),
        (1, {"weights": 4, "master": 4, "moments": 8}),
        (2, {"weights": 4, "master": 4, "moments": 8}),
        (3, {"weights": 4, "moments": 8}),
    ],
)
def test_zero_1_and_2_save_fp32_weights_twice(zero_stage: int, bytes_of_part: dict[str, int]) -> None:
    """The shard of the optimizer is cloned from the weights, also where both are fp32; in ZeRO 3 the shards are one."""
    training = {"precision": "fp32"}
    report = report_of("deepspeed", {"preset": "gpt2"}, training, data=4, zero_stage=zero_stage)
    parts = {name: part.bytes_per_parameter for name, part in report.checkpoint.parts.items()}
    assert parts == bytes_of_part
    files: dict[str, int] = {}
    for ranks in report.layout.rank_classes:
        for file in ranks.files:
            files[file.name] = files.get(file.name, 0) + ranks.num_ranks * file.num_bytes
    optimizer_bytes = files.pop("zero_pp_rank_D_mp_rank_MM_optim_states.pt", 0)
    whole = {0: 12, 1: 4, 2: 4, 3: 0}[zero_stage]
    assert sum(files.values()) == whole * report.model.num_parameters
    assert optimizer_bytes == (sum(bytes_of_part.values()) - whole) * report.model.num_parameters


def test_a_bf16_pipeline_divides_the_optimizer_without_zero_too() -> None:
    """A real save of DeepSpeed 0.19.8: 16,640 parameters on each of 2 stages, 2 data ranks, 103,621 bytes a file."""
    report = report_of("deepspeed", {"num_parameters": 2 * 16_640}, pipeline=2, data=2, zero_stage=0)
    found = {
        file.num_bytes for ranks in report.layout.rank_classes for file in ranks.files if "optim_states" in file.name
    }
    assert found == {99_840}
    assert found.pop() == pytest.approx(103_621, rel=0.04)
    whole = report_of("deepspeed", {"num_parameters": 2 * 16_640}, data=2, zero_stage=0)
    assert whole.layout.num_writers == 1


def test_without_zero_the_ranks_of_experts_write_in_stages_with_experts_alone() -> None:
    """Seven stages of a layer, two of them dense: 2 tensor ranks write there, and 2 x 4 expert ranks on each other."""
    degrees: dict[str, Any] = {"tensor": 2, "pipeline": 7, "expert": 4, "data": 8, "zero_stage": 0}
    layout = report_of("deepspeed", {"architecture": MIXTURE}, {"precision": "fp16-mixed"}, **degrees).layout
    assert layout.num_writers == 2 * 2 + 5 * 8
    assert (layout.num_writing_nodes, layout.max_writers_per_node) == (7, 8)
    assert {ranks.copies for ranks in layout.rank_classes if ranks.stages in {"0", "1"}} == {"0"}


@pytest.mark.parametrize("pipeline", [1, 2, 3, 7])
def test_every_expert_of_every_layer_has_its_file(pipeline: int) -> None:
    """Five layers with experts after two dense ones, and the module behind them: eight experts each.

    DeepSpeed numbers the modules of experts that a stage has, from 0.
    """
    document = {
        "model": {"architecture": MIXTURE},
        "training": {"framework": "deepspeed"},
        "parallelism": {"pipeline": pipeline, "expert": 2, "data": 2},
    }
    files = {row.file for row in manifest_of(scenario_from(document)) if "_expert_" in row.file}
    stages = [_stage_of(layer, pipeline) for layer in (2, 3, 4, 5, 6, 7)]
    wanted = {(stages[:layer].count(stage), stage) for layer, stage in enumerate(stages)}
    assert files == {
        f"layer_{layer}_expert_{expert}_mp_rank_{stage:02d}_model_states.pt"
        for layer, stage in wanted
        for expert in range(8)
    }


def _stage_of(layer: int, pipeline: int) -> int:
    stages = [stage for stage in range(pipeline) for _ in range(7 // pipeline + (stage < 7 % pipeline))]
    return stages[min(layer, 6)]


@pytest.mark.parametrize(("model", "numbers"), [(TIED, range(9)), (MIXTURE, range(0))])
def test_each_layer_of_a_pipeline_has_a_file_where_its_stage_has_no_experts(
    model: dict[str, Any], numbers: range
) -> None:
    """Before the seven layers stands the embedding, behind them the norm and the head; a stage may have none of them."""
    document = {
        "model": {"architecture": model},
        "training": {"framework": "deepspeed"},
        "parallelism": {"pipeline": 3, "layers_per_stage": [4, 0, 3], "tensor": 2},
    }
    files = [row.file for row in manifest_of(scenario_from(document))]
    assert len(set(files)) == len(files)
    of_layers = {file for file in files if file.startswith("layer_") and "expert" not in file}
    assert of_layers == {f"layer_{n:02d}-model_{t:02d}-model_states.pt" for n in numbers for t in range(2)}


def test_files_of_a_pipeline_in_bf16_without_zero_are_those_of_a_real_save() -> None:
    """DeepSpeed 0.19.8 on 2 x 2 ranks: bytes on disk. Data rank 0's share of the optimizer stands twice."""
    found = with_containers(SMALL, "bf16-mixed", data=2, pipeline=2, zero_stage=0)
    layers = {f"layer_{layer:02d}-model_states.pt": 1_479_643 for layer in range(1, 5)}
    shares = {f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt": 21_146_117 for rank in range(2)}
    assert found == pytest.approx(
        {
            "layer_00-model_states.pt": 4_097_739,
            **layers,
            "layer_05-model_states.pt": 4_098_517,
            "mp_rank_00_model_states.pt": 21_145_277,
            "mp_rank_01_model_states.pt": 21_147_901,
            **shares,
            **{file.replace("mp_rank_00", "mp_rank_01"): 21_147_717 for file in shares},
        },
        rel=0.001,
    )


@pytest.mark.parametrize("precision", ["bf16-mixed", "fp16-mixed"])
def test_files_of_experts_without_zero_are_those_of_a_real_save(precision: str) -> None:
    """DeepSpeed 0.19.8 on 4 ranks, 2 of them expert ranks, bytes on disk: each writes its whole optimizer once more."""
    mixture = SMALL | {"family": "mixtral", "num_layers": 2, "num_experts": 8, "num_experts_per_token": 2}
    found = with_containers(mixture, precision, data=4, expert=2, zero_stage=0)
    of_experts = {f"layer_{n}_expert_{e}_mp_rank_00_model_states.pt": 1_084_042 for n in range(2) for e in range(8)}
    assert found == pytest.approx(
        {
            "mp_rank_00_model_states.pt": 114_883_269,
            "expp_rank_0_mp_rank_00_optim_states.pt": 105_889_807,
            "expp_rank_1_mp_rank_00_optim_states.pt": 105_889_807,
            **of_experts,
        },
        rel=0.001,
    )


SMALL = {
    "family": "llama",
    "hidden_size": 256,
    "num_layers": 4,
    "num_attention_heads": 8,
    "num_kv_heads": 4,
    "ffn_hidden_size": 704,
    "vocab_size": 8000,
    "tied_embeddings": False,
}


def with_containers(architecture: dict[str, Any], precision: str, **degrees: int) -> dict[str, int]:
    """Every file that DeepSpeed writes, with its headers."""
    document = {
        "model": {"architecture": architecture},
        "training": {"framework": "deepspeed", "precision": precision},
        "parallelism": degrees,
    }
    return {row.file: row.tensor_bytes + row.container_bytes for row in manifest_of(scenario_from(document))}


_OF_FSDP = {"pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata"}


@pytest.mark.parametrize(
    ("training", "parallelism", "checkpoint", "small"),
    [
        ("megatron", {"tensor": 2}, {}, {".metadata", "metadata.json"}),
        ("megatron", {"tensor": 2}, {"files_per_rank": 2}, {".metadata", "metadata.json", "common.pt"}),
        ("megatron", {"tensor": 2}, {"format": "megatron"}, set()),
        ("fsdp2", {"data": 2}, {}, {".metadata"}),
        ("fsdp2", {"data": 2}, {"format": "full"}, set()),
        ("deepspeed", {"data": 2}, {}, set()),
        (
            "accelerate",
            {"data": 2, "shard_group": 2},
            {"format": "accelerate-fsdp"},
            {*_OF_FSDP, "scheduler.bin", "random_states_0.pkl", "random_states_1.pkl"},
        ),
        (
            "transformers",
            {"data": 2, "shard_group": 2},
            {"format": "accelerate-fsdp"},
            {*_OF_FSDP, "scheduler.pt", "trainer_state.json", "rng_state_0.pth", "rng_state_1.pth"},
        ),
    ],
)
def test_small_files_stand_beside_those_of_the_ranks_as_in_a_real_folder(
    training: str, parallelism: dict[str, int], checkpoint: dict[str, Any], small: set[str]
) -> None:
    """A folder of Megatron on two GPUs has 4 files today; torch_dist of Megatron-Core 0.16 had 2 x 2 + 3."""
    document = {
        "model": {"preset": "gpt2"},
        "training": {"framework": training},
        "parallelism": parallelism,
        "checkpoint": checkpoint,
    }
    sizes = {row.file: row.container_bytes for row in every_file_of(scenario_from(document))}
    files, counted = sizes.keys(), answer(document).checkpoint.small_state_bytes
    assert sum(sizes[name] for name in files if name.endswith(".metadata")) == counted.get(".metadata", 0)
    assert files - {row.file for row in manifest_of(scenario_from(document))} == small
    assert len(files) == answer(document).checkpoint.num_files


def test_fsdp_shards_rows_and_the_copies_of_a_shard_share_its_writing() -> None:
    sharded = report_of("fsdp-sharded", {"preset": "llama-3.1-8b"}, data=64)
    hybrid = report_of("fsdp-sharded", {"preset": "llama-3.1-8b"}, data=64, shard_group=8)
    assert sharded.checkpoint.total_bytes == hybrid.checkpoint.total_bytes == 12 * 8_030_261_248
    assert sharded.layout.num_writers == hybrid.layout.num_writers == 64
    for name in ("weights", "moments"):
        assert hybrid.restore.parts[name].read_bytes == 8 * sharded.restore.parts[name].read_bytes


def test_what_one_rank_reads_alone_takes_as_long_as_one_rank_takes() -> None:
    profile = {"read_bytes_per_second": "1 TB/s", "writer_read_bytes_per_second": "1 GB/s"}
    document = {
        "model": {"preset": "llama-3.1-8b"},
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": 1024},
        "checkpoint": {"format": "full"},
        "storage": {"profile": profile},
    }
    assert answer(scenario_from(document)).restore.read_seconds == pytest.approx(12 * 8.030261248)


def test_a_gathered_optimizer_is_read_by_the_nodes_that_wrote_it() -> None:
    """4.87 TB of optimizer state through 16 nodes at 8 GB/s, after 104 TB of weights through 2,048.

    All wait for the stage of 8 of the 126 layers that has the embedding too, 27.603e9 parameters.
    """
    document = {
        "model": {"preset": "llama-3.1-405b"},
        "parallelism": {"tensor": 8, "pipeline": 16, "data": 128},
        "training": {"distributed_optimizer": True},
        "checkpoint": {"format": "megatron-distributed-optimizer"},
        "storage": {"profile": {"node_read_bytes_per_second": "8 GB/s"}},
    }
    weights, optimizer = 128 * 2 * 405.853e9 / (2048 * 8e9), 12 * 405.853e9 / (16 * 8e9)
    fullest_over_mean = 27.603e9 / (405.853e9 / 16)
    found = answer(scenario_from(document)).restore.read_seconds
    assert found == pytest.approx(fullest_over_mean * (weights + optimizer), rel=1e-3)


@pytest.mark.parametrize(
    ("degrees", "gpus_per_node", "busiest_over_mean"),
    [({"tensor": 4, "pipeline": 3}, 8, 8 / 6), ({"tensor": 8}, 6, 6 / 4)],
)
def test_the_fullest_node_decides_where_nodes_limit(
    degrees: dict[str, int], gpus_per_node: int, busiest_over_mean: float
) -> None:
    document = {
        "model": {"num_parameters": 12 * 10**9},
        "parallelism": degrees,
        "cluster": {"node_spec": {"gpus_per_node": gpus_per_node}},
        "storage": {"profile": {"node_write_bytes_per_second": "1 GB/s", "planning_seconds_per_rank": 0}},
    }
    write = answer(scenario_from(document)).write
    assert write is not None
    assert write.seconds == pytest.approx(14 * 12 / 2 * busiest_over_mean)


@pytest.mark.parametrize("is_distributed", [False, True])
@pytest.mark.parametrize(
    ("preset", "degrees"),
    [
        ("llama-3.1-405b", {"tensor": 8, "pipeline": 16, "data": 64}),
        ("gpt2", {"tensor": 4, "pipeline": 3, "data": 5}),
        ("deepseek-v3", {"tensor": 2, "pipeline": 4, "data": 64, "expert": 32}),
        ("mixtral-8x7b", {"tensor": 4, "data": 8, "expert": 8, "expert_tensor": 1}),
    ],
)
def test_variants_share_evenly_what_is_dealt_whole(
    preset: str, degrees: dict[str, int], *, is_distributed: bool
) -> None:
    training = {"distributed_optimizer": is_distributed}
    scenario = scenario_from({"model": {"preset": preset}, "parallelism": degrees, "training": training})
    dealt, even = size_layout(scenario).workload, workload_anew(scenario)
    assert even.written_bytes == dealt.written_bytes
    assert even.write.num_streams == dealt.write.num_streams


def test_each_writer_of_a_node_gathers_its_own_file() -> None:
    tensor_ranks = report_of("megatron-distributed-optimizer", {"preset": "llama-3.1-8b"}, tensor=8, data=2)
    assert tensor_ranks.layout.max_writers_per_node == 8
    assert tensor_ranks.host_memory.gathered_bytes == pytest.approx(12 * 8_030_261_248, rel=0.001)


def test_gathering_more_than_the_host_has_is_warned_about() -> None:
    report = report_of("full", {"preset": "llama-3.1-405b"}, data=64)
    assert report.host_memory.gathered_bytes == 12 * 405_853_388_800
    assert report.host_memory.fits is False
    assert any("Use checkpoint.format fsdp-sharded" in warning for warning in report.warnings)
    assert report_of("fsdp-sharded", {"preset": "llama-3.1-405b"}, data=64).host_memory.gathered_bytes == 0


def test_factored_states_of_fused_experts_are_as_small_as_those_of_each() -> None:
    sharded, full = (
        report_of(name, {"preset": "mixtral-8x7b"}, {"optimizer": "adafactor"}, data=8).checkpoint
        for name in ("fsdp-sharded", "full")
    )
    assert sharded.logical_bytes == full.logical_bytes
    assert sharded.total_bytes == pytest.approx(full.total_bytes, rel=0.01)


def test_fsdp_ranks_without_rows_of_a_small_tensor_write_less() -> None:
    tiny = {
        "family": "llama",
        "hidden_size": 6,
        "num_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 8,
        "ffn_hidden_size": 10,
        "tied_embeddings": False,
    }
    report = report_of("fsdp-sharded", {"architecture": tiny}, data=4)
    rows = [2, 2, 2, 0], [2, 2, 2, 2], [3, 3, 3, 1]
    hidden, vocabulary, width = rows
    expected = [
        12 * (2 * vocabulary[r] * 6 + 4 * hidden[r] * 6 + 2 * width[r] * 6 + hidden[r] * 10 + 3 * hidden[r])
        for r in range(4)
    ]
    found = [c.bytes_per_rank for c in report.layout.rank_classes for _ in range(c.num_ranks)]
    assert found == expected


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (
            {"training": {"framework": "fsdp2"}, "checkpoint": {"format": "megatron"}},
            "checkpoint.format must be one of fsdp-sharded, full with framework fsdp2, got 'megatron'",
        ),
        (
            {
                "training": {"framework": "fsdp2"},
                "parallelism": {"pipeline": 2},
                "checkpoint": {"format": "full"},
            },
            "parallelism.pipeline must be 1 with format full, got 2: remove it, or use format fsdp-sharded",
        ),
        ({"parallelism": {"zero_stage": 2}}, "parallelism.zero_stage is a field of format deepspeed, got 2"),
        (
            {"checkpoint": {"format": "megatron", "files_per_rank": 2}},
            "checkpoint.files_per_rank is a field of format torch-dist, got 2",
        ),
        (
            {"checkpoint": {"format": "megatron-distributed-optimizer"}},
            "training.distributed_optimizer must be true with format megatron-distributed-optimizer, and the default is "
            "no: set it (`training.distributed_optimizer yes`), or use format megatron or torch-dist.",
        ),
        (
            {"checkpoint": {"format": "fsdp-dtensor"}, "training": {"distributed_optimizer": False}},
            "training.distributed_optimizer must be true with format fsdp-dtensor, got false: set it "
            "(`training.distributed_optimizer yes`), or use",
        ),
        (
            {"checkpoint": {"format": "megatron"}, "training": {"distributed_optimizer": True}},
            "training.distributed_optimizer is a field of format megatron-distributed-optimizer or torch-dist or "
            "fsdp-dtensor, got true: remove it, or use format megatron-distributed-optimizer or torch-dist or fsdp-dtensor",
        ),
        (
            {"training": {"framework": "fsdp2", "distributed_optimizer": True}},
            "training.distributed_optimizer is a field of format megatron-distributed-optimizer or torch-dist or "
            "fsdp-dtensor, got true: remove it, or change training.framework",
        ),
        (
            {"training": {"framework": "transformers"}, "parallelism": {"zero_stage": 2}},
            "got 2: remove it, or with DeepSpeed give training.framework deepspeed and, for the whole weights that Trainer "
            "writes too, checkpoint.export.every 1.",
        ),
        (
            {"parallelism": {"shard_group": 2, "data": 4}},
            "parallelism.shard_group is a field of format fsdp-dtensor or fsdp-sharded",
        ),
        (
            {
                "training": {"distributed_optimizer": True},
                "parallelism": {"virtual_pipeline": 5},
                "checkpoint": {"format": "fsdp-dtensor"},
            },
            "parallelism.virtual_pipeline must be 1 with format fsdp-dtensor, got 5: remove it, or use format "
            "megatron-distributed-optimizer or torch-dist.",
        ),
        ({"parallelism": {"shard_group": 3, "data": 4}}, "does not divide data x context = 4"),
        ({"parallelism": {"expert": 3, "data": 4}}, "parallelism.expert must be 1 for a model without num_experts"),
        (
            {
                "model": {"preset": "deepseek-v3"},
                "parallelism": {"pipeline": 16, "data": 128, "expert": 3},
                "cluster": {"num_gpus": 2048},
            },
            "parallelism.expert must divide num_experts 256, got 3: the nearest valid degrees are 2 and 4.",
        ),
        (
            {"model": {"preset": "deepseek-v3"}, "parallelism": {"data": 96, "expert": 64}},
            "parallelism.expert must divide tensor x context x data / expert_tensor = 96, got 64: "
            "the nearest valid degrees are 16 and 32, or set data to 128.",
        ),
        (
            {
                "model": {"preset": "deepseek-v3"},
                "parallelism": {"pipeline": 2, "data": 96, "expert": 64},
                "cluster": {"num_gpus": 192},
            },
            "are 16 and 32, or set data to 128 and cluster.num_gpus to 256.",
        ),
        (
            {"model": {"preset": "mixtral-8x7b"}, "parallelism": {"data": 9, "expert_tensor": 2}},
            "parallelism.expert_tensor must divide tensor x context x data = 9, got 2: set expert_tensor to 1 or data "
            "to 10.",
        ),
        ({"parallelism": {"expert": 2, "data": 4}}, "parallelism.expert must be 1 for a model without num_experts"),
        (
            {"model": {"preset": "mixtral-8x7b"}, "parallelism": {"expert": 16, "data": 16}},
            "parallelism.expert must divide num_experts 8, got 16",
        ),
        (
            {
                "model": {"preset": "mixtral-8x7b"},
                "parallelism": {"tensor": 2, "expert": 2, "expert_tensor": 1, "data": 4},
                "training": {"framework": "deepspeed"},
            },
            "parallelism.expert_tensor must equal tensor 2 with format deepspeed, got 1",
        ),
        (
            {"parallelism": {"pipeline": 4, "virtual_pipeline": 2}},
            "parallelism.virtual_pipeline must cut num_layers 12 over pipeline 4 into equal chunks, got 2: "
            "the nearest valid degrees are 1 and 3",
        ),
    ],
)
def test_what_a_format_cannot_hold_is_refused(document: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        answer(scenario_from({"model": {"preset": "gpt2"}} | document))
    assert sentence in str(caught.value)
