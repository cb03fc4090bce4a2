"""Whose folder it is, what its parts are, and that parameters count once: folders as the frameworks lay them out."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch.distributed.checkpoint.state_dict_saver import save

from sizing.checkpoint_files import contents_of
from sizing.cli.inspection_table import flags_text
from sizing.errors import UnreadableFile
from sizing.present.inspections import explain_unknown_parameters, resume_notes
from tests.sizing.checkpoint_files.trained import num_parameters, stepped, tiny_llama

HIDDEN, EXPERTS = 8, 4
DENSE: dict[str, tuple[int, ...]] = {
    "embedding.word_embeddings.weight": (64, HIDDEN),
    "decoder.final_layernorm.weight": (HIDDEN,),
}
EXPERT: dict[str, tuple[int, ...]] = {"decoder.layers.0.mlp.experts.local_experts.0.linear_fc1.weight": (16, HIDDEN)}


def saved(path: Path, state: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path)


def values(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def in_one_buffer(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """As a distributed optimizer keeps them: views of one storage."""
    buffer = torch.cat([tensor.flatten() for tensor in tensors.values()])
    starts = [0]
    for tensor in tensors.values():
        starts.append(starts[-1] + tensor.numel())
    return {
        name: buffer[start : start + tensor.numel()].view(tensor.shape)
        for (name, tensor), start in zip(tensors.items(), starts, strict=False)
    }


@pytest.mark.parametrize("arranged", [dict, in_one_buffer])
@pytest.mark.parametrize("with_stages", [False, True])
def test_dense_weights_in_the_file_of_every_expert_rank_count_once(
    tmp_path: Path, arranged: Any, with_stages: bool
) -> None:
    for stage in range(1 + with_stages):
        for expert in range(EXPERTS):
            weights = arranged(values(DENSE, seed=stage) | values(EXPERT, seed=10 + 10 * stage + expert))
            rank = f"mp_rank_00_{stage:03}_{expert:03}" if with_stages else f"mp_rank_00_{expert:03}"
            saved(tmp_path / rank / "model_optim_rng.pt", {"model": weights})
    contents = contents_of(tmp_path)
    once = sum(torch.Size(shape).numel() for shape in DENSE.values())
    each = sum(torch.Size(shape).numel() for shape in EXPERT.values())
    assert contents.num_parameters == (1 + with_stages) * (once + EXPERTS * each)
    assert contents.layout == "Megatron-LM classic"
    assert any("Copies of weights in several files" in note for note in contents.notes)


@pytest.mark.parametrize("arranged", [dict, in_one_buffer])
@pytest.mark.parametrize(("num_tensor_ranks", "num_expert_ranks"), [(4, 2), (2, 4), (2, 2)])
def test_experts_that_tensor_ranks_do_not_cut_count_once(
    tmp_path: Path, arranged: Any, num_tensor_ranks: int, num_expert_ranks: int
) -> None:
    """Rank r of a stage is tensor rank r mod T and expert rank r mod E: 4 of 8 pairs occur, or 2 of 4."""
    embedding, norm = ({name: shape} for name, shape in DENSE.items())
    for rank in range(max(num_tensor_ranks, num_expert_ranks)):
        tensor, expert = rank % num_tensor_ranks, rank % num_expert_ranks
        own = values(embedding, seed=tensor) | values(norm, seed=50) | values(EXPERT, seed=100 + expert)
        folder = tmp_path / f"mp_rank_{tensor:02}_{expert:03}"
        saved(folder / "model_optim_rng.pt", {"model": arranged(own)})
        saved(folder / "distrib_optim.pt", {0: {"param": torch.zeros(16)}})
    assert (
        contents_of(tmp_path).num_parameters == 64 * HIDDEN * num_tensor_ranks + HIDDEN + 16 * HIDDEN * num_expert_ranks
    )


def test_norms_of_every_tensor_rank_and_the_tied_embedding_of_the_last_stage_count_once(tmp_path: Path) -> None:
    norm, cut = values({"norm.weight": (8,)}, 1), [values({"mlp.weight": (4, 8)}, seed) for seed in (2, 3)]
    tied = values({"w": (16, 8)}, 4)["w"]
    for stage, name in enumerate(("embedding.word_embeddings.weight", "output_layer.weight")):
        for rank in range(2):
            own = {f"stage{stage}.{key}": value + stage for key, value in (norm | cut[rank]).items()}
            embedding = {name: tied + rank}
            saved(tmp_path / f"mp_rank_{rank:02}_{stage:03}" / "model_optim_rng.pt", {"model": own | embedding})
    assert contents_of(tmp_path).num_parameters == 2 * 8 + 4 * 32 + 2 * 128


def test_the_parameters_of_zero_3_are_those_that_its_files_state(tmp_path: Path) -> None:
    for rank in range(2):
        shapes = [{"a.weight": torch.Size([10, 7]), "a.bias": torch.Size([7])}]
        state = {"module": {"a.weight": torch.zeros(0)}, "param_shapes": shapes, "frozen_param_shapes": None}
        saved(tmp_path / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt", state)
        flat = {"state": {0: {"exp_avg": torch.ones(39), "exp_avg_sq": torch.ones(39)}}}
        optimizer = {"fp32_flat_groups": [torch.ones(39)], "optimizer_state_dict": flat}
        saved(tmp_path / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", {"optimizer_state_dict": optimizer})
    contents = contents_of(tmp_path)
    assert (contents.num_parameters, contents.layout) == (77, "DeepSpeed ZeRO-3")
    assert contents.part_bytes == {"master": 2 * 156, "moments": 2 * 312}
    assert flags_text(contents).startswith(
        "ckpt-size --parameters 77 --framework deepspeed --zero-stage 3 --data 2 --observed"
    )


@pytest.mark.parametrize("shapes", [[{"a": (-1, 2)}], [{"a": 3}], [{"a": (2**40, 2**40)}]])
def test_shapes_that_cannot_be_are_refused(tmp_path: Path, shapes: Any) -> None:
    saved(tmp_path / "zero_pp_rank_0_mp_rank_00_model_states.pt", {"module": {}, "param_shapes": shapes})
    with pytest.raises(UnreadableFile, match="a partitioned parameter"):
        contents_of(tmp_path)


@pytest.mark.parametrize(
    ("content", "num_parameters"),
    [({"param": torch.ones(10), "cat_dim": 0}, 20), (torch.ones(10), None)],
    ids=["ZeRO 1", "ZeRO 3"],
)
def test_a_universal_checkpoint_has_a_file_for_each_part_of_each_parameter(
    tmp_path: Path, content: Any, num_parameters: int | None
) -> None:
    """The conversion of ZeRO 3 writes each tensor alone; its parameters are those of the copied model states."""
    for name in ("a.weight", "a.bias"):
        for part in ("fp32", "exp_avg", "exp_avg_sq"):
            saved(tmp_path / "zero" / name / f"{part}.pt", content)
    contents = contents_of(tmp_path)
    assert (contents.layout, contents.num_parameters) == ("DeepSpeed universal", num_parameters)
    assert contents.part_bytes == {"master": 80, "moments": 160}


@pytest.mark.filterwarnings("ignore")
def test_a_torchtitan_step_tells_its_small_state_apart(tmp_path: Path) -> None:
    """The keys of torchtitan's CheckpointManager, saved by real DCP."""
    model = tiny_llama()
    state: dict[str, Any] = dict(model.state_dict())
    moments = stepped(model).state_dict()["state"]
    for name, own in zip(list(state), moments.values(), strict=False):
        state |= {f"optimizer.state.{name}.{key}": value for key, value in own.items()}
    state |= {
        "lr_scheduler": {"last_epoch": 3, "_step_count": [1, 2]},
        "dataloader": {"dp_rank_0": b"x" * 1000, "world_size": 1},
        "train_state": {"step": torch.tensor(3), "ntokens_seen": torch.tensor(10)},
    }
    save(state, checkpoint_id=tmp_path / "step-3", no_dist=True)
    contents = contents_of(tmp_path / "step-3")
    assert (contents.layout, contents.num_parameters) == ("torchtitan", num_parameters(model))
    assert contents.part_bytes["moments"] == 8 * num_parameters(model)
    assert contents.small_state_bytes["data loader"] > 1000
    assert contents.small_state_bytes["scheduler"] > 0
    assert {"weights", "optimizer", "scheduler", "data loader"} <= set(contents.largest_file.holds)
    assert flags_text(contents).split()[3:5] == ["--framework", "torchtitan"]


def reshardable(weights: dict[str, torch.Tensor]) -> dict[str, Any]:
    """The names of Megatron's torch_dist with its fully reshardable optimizer."""
    state: dict[str, Any] = {name: weight.bfloat16() for name, weight in weights.items()}
    for part in ("param", "exp_avg", "exp_avg_sq"):
        state |= {f"optimizer.state.{part}.{name}": weight for name, weight in weights.items()}
    return state | {"rng_state/shard_0_1": [1, 2, 3]}


@pytest.mark.filterwarnings("ignore")
def test_the_masters_of_a_fully_reshardable_optimizer_are_no_weights(tmp_path: Path) -> None:
    weights = values(DENSE, seed=0)
    count = sum(weight.numel() for weight in weights.values())
    save(reshardable(weights), checkpoint_id=tmp_path, no_dist=True)
    saved(tmp_path / "common.pt", {"iteration": 3})
    (tmp_path / "metadata.json").write_text('{"sharded_backend": "torch_dist"}')
    contents = contents_of(tmp_path)
    assert (contents.layout, contents.num_parameters) == ("Megatron-LM torch_dist", count)
    parts = contents.part_bytes
    assert (parts["weights"], parts["master"], parts["moments"]) == (2 * count, 4 * count, 8 * count)
    assert contents.small_state_bytes["random state"] > 0


@pytest.mark.filterwarnings("ignore")
def test_nemo_keeps_weights_beside_context(tmp_path: Path) -> None:
    weights = values(DENSE, seed=0)
    save(reshardable(weights), checkpoint_id=tmp_path / "weights", no_dist=True)
    saved(tmp_path / "weights" / "common.pt", {"iteration": 3})
    (tmp_path / "weights" / "metadata.json").write_text("{}")
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "model.yaml").write_text("hidden_size: 8")
    contents = contents_of(tmp_path)
    assert contents.layout == "NeMo 2"
    assert {file.name: file.holds for file in contents.files}["context/model.yaml"] == ("settings",)


@pytest.mark.filterwarnings("ignore")
def test_nemo_automodel_keeps_each_state_in_files_of_its_own(tmp_path: Path) -> None:
    model = tiny_llama()
    (tmp_path / "model").mkdir()
    safetensors.torch.save_file(dict(model.state_dict()), tmp_path / "model" / "shard-00001-model.safetensors")
    state = stepped(model).state_dict()["state"]
    save({f"optim.state.{i}.{k}": v for i, own in state.items() for k, v in own.items()},
         checkpoint_id=tmp_path / "optim", no_dist=True)  # fmt: skip
    for name in ("step_scheduler.pt", "dataloader/dataloader_dp_rank_0.pt", "rng/rng_dp_rank_0.pt"):
        saved(tmp_path / name, {"value": 1})
    contents = contents_of(tmp_path)
    assert (contents.layout, contents.num_parameters) == ("NeMo AutoModel", num_parameters(model))
    assert set(contents.small_state_bytes) == {"random state", "scheduler", "data loader"}


def orbax(folder: Path, *, copies: int, **written: tuple[list[int], list[str | None]]) -> None:
    """The metadata of arrays on a mesh of so many copies of two shards, as Orbax 0.12 writes it."""
    tree, shardings = {}, {}
    for name, (shape, spec) in written.items():
        keys = name.split("__")
        tree[str(tuple(keys))] = {
            "key_metadata": [{"key": key, "key_type": 2} for key in keys],
            "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False, "write_shape": shape},
        }
        mesh = {"sharding_type": "NamedSharding", "shape": [copies, 2], "axis_names": ["data", "fsdp"]}
        encoded = base64.b64encode(".".join(keys).encode()).decode()
        shardings[encoded] = json.dumps(mesh | {"partition_spec": spec})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "_METADATA").write_text(json.dumps({"tree_metadata": tree, "use_ocdbt": True}))
    (folder / "_sharding").write_text(json.dumps(shardings))
    data = folder / "ocdbt.process_0" / "d"
    data.mkdir(parents=True, exist_ok=True)
    (data / "0123").write_bytes(b"x" * 5000)


def test_the_arrays_of_orbax_are_counted_by_their_shapes_and_their_mesh(tmp_path: Path) -> None:
    orbax(
        tmp_path / "0" / "items",
        copies=2,
        params__w=([4, 6], ["fsdp", None]),  # slices of (16, 6)
        params__odd=([5], [None]),  # whole
        opt_state__mu__w=([4, 6], ["fsdp", None]),
        opt_state__nu__w=([4, 6], ["fsdp", None]),
    )
    (tmp_path / "0" / "_CHECKPOINT_METADATA").write_text("{}")
    contents = contents_of(tmp_path)
    assert (contents.format, contents.layout, contents.num_parameters) == ("orbax", "Orbax", 16 * 6 + 5)
    parts = {total.part: total.num_parameters for total in contents.tensors}
    assert parts == {"weights": 101, "moments": 192}
    assert (
        flags_text(contents) == f"ckpt-size --parameters 101 --framework maxtext --observed-bytes {contents.disk_bytes}"
    )


def test_several_steps_of_orbax_are_refused(tmp_path: Path) -> None:
    for step in ("100", "200"):
        orbax(tmp_path / step / "items", copies=1, params__w=([4], [None]))
    with pytest.raises(UnreadableFile, match="holds 2 checkpoints"):
        contents_of(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tree_metadata": {"a": {}}}', '{"tree_metadata": {"a": 1}}'])
def test_metadata_that_is_none_of_orbax_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "_METADATA").write_text(content)
    with pytest.raises(UnreadableFile, match="is no metadata of Orbax"):
        contents_of(tmp_path)


def test_no_command_takes_weights_alone_or_an_optimizer_alone_for_a_checkpoint(tmp_path: Path) -> None:
    model = tiny_llama()
    safetensors.torch.save_file(dict(model.state_dict()), tmp_path / "model.safetensors")
    assert flags_text(contents_of(tmp_path)) == f"ckpt-size --parameters {num_parameters(model)}"
    saved(tmp_path / "alone" / "optimizer.pt", stepped(model).state_dict())
    assert flags_text(contents_of(tmp_path / "alone")) == "ckpt-size --model NAME"


def test_a_run_in_bf16_alone_is_said_to_be_one(tmp_path: Path) -> None:
    model: Any = tiny_llama(dtype=torch.bfloat16)
    safetensors.torch.save_file(dict(model.state_dict()), tmp_path / "model.safetensors")
    saved(tmp_path / "optimizer.pt", stepped(model).state_dict())
    (tmp_path / "trainer_state.json").write_text("{}")
    assert "--framework transformers --precision bf16 --observed-bytes" in flags_text(contents_of(tmp_path))


def adapter(folder: Path) -> Path:
    """A folder as PEFT saves it: two matrices of rank 2 beside one of 8 x 8."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"
    shapes: dict[str, tuple[int, ...]] = {name.format("A"): (2, 8), name.format("B"): (8, 2)}
    safetensors.torch.save_file(values(shapes, seed=1), folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2}')
    return folder


def test_an_adapter_is_named_and_its_values_are_not_taken_for_those_of_a_model(tmp_path: Path) -> None:
    found = contents_of(adapter(tmp_path))
    assert (found.layout, found.num_parameters) == ("PEFT adapter", 32)
    assert flags_text(found) == "ckpt-size --model NAME --lora-rank 2 --lora-targets attention.query"
    assert any("adapter alone: name the model" in note for note in resume_notes(found))
    assert "is an adapter" in explain_unknown_parameters(found)


ADAPTED = "--lora-rank 2 --lora-targets attention.query"


@pytest.mark.parametrize(
    ("shapes", "flags", "undescribed"),
    [
        ({"lm_head.lora_A.weight": (2, 8), "lm_head.lora_B.weight": (64, 2)}, ADAPTED, "144 (in lm_head)"),
        ({"embed_tokens.lora_embedding_A": (2, 64)}, ADAPTED, "128 (in embed_tokens)"),
        ({"lm_head.base_layer.weight": (64, 8), "embed_tokens.weight": (64, 8)}, ADAPTED, "1,024 (in embed_tokens,"),
        ({"layers.0.self_attn.v_proj.lora_magnitude_vector": (8,)}, ADAPTED, "8 (in v_proj)"),
        ({"layers.0.self_attn.v_proj.lora_A.weight": (1, 8)}, ADAPTED, "8 (in v_proj)"),
        ({"mlp.experts.lora_A.weight": (8, 64)}, ADAPTED, "512 (in experts)"),
    ],
)
def test_what_an_adapter_has_beside_what_a_scenario_describes_is_said(
    tmp_path: Path, shapes: dict[str, tuple[int, ...]], flags: str, undescribed: str
) -> None:
    """Heads, embeddings and whole layers beside adapters, ranks of patterns; magnitudes."""
    path = adapter(tmp_path) / "adapter_model.safetensors"
    assert not any("does not describe" in note for note in contents_of(tmp_path).notes)
    further = values({f"base_model.model.model.{name}": shape for name, shape in shapes.items()}, seed=2)
    safetensors.torch.save_file(safetensors.torch.load_file(path) | further, path)
    found = contents_of(tmp_path)
    assert flags_text(found) == f"ckpt-size --model NAME {flags}"
    (note,) = [note for note in found.notes if "does not describe" in note]
    assert f"training.adapters does not describe {undescribed}" in note


def test_a_projection_whose_gate_has_no_adapter_keeps_the_name_of_its_module(tmp_path: Path) -> None:
    path = adapter(tmp_path) / "adapter_model.safetensors"
    name = "base_model.model.model.layers.0.mlp.up_proj.lora_{}.weight"
    shapes: dict[str, tuple[int, ...]] = {name.format("A"): (2, 8), name.format("B"): (16, 2)}
    safetensors.torch.save_file(safetensors.torch.load_file(path) | values(shapes, seed=2), path)
    found = contents_of(tmp_path)
    assert flags_text(found) == "ckpt-size --model NAME --lora-rank 2 --lora-targets attention.query,up_proj"
    assert not any("does not describe" in note for note in found.notes)


def test_magnitudes_of_all_adapted_matrices_are_those_of_dora(tmp_path: Path) -> None:
    path = adapter(tmp_path) / "adapter_model.safetensors"
    magnitudes = values({"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector": (8,)}, seed=2)
    safetensors.torch.save_file(safetensors.torch.load_file(path) | magnitudes, path)
    found = contents_of(tmp_path)
    assert (found.num_parameters, flags_text(found)) == (40, f"ckpt-size --model NAME {ADAPTED} --dora yes")
    assert not any("does not describe" in note for note in found.notes)


def test_matrices_that_a_scenario_has_no_names_for_leave_the_rank(tmp_path: Path) -> None:
    shapes: dict[str, tuple[int, ...]] = {
        "h.0.mixer.in_proj.lora_A.weight": (2, 8),
        "h.0.mixer.in_proj.lora_B.weight": (24, 2),
    }
    safetensors.torch.save_file(values(shapes, seed=1), tmp_path / "adapter_model.safetensors")
    found = contents_of(tmp_path)
    assert flags_text(found) == "ckpt-size --model NAME --lora-rank 2"
    assert any("Of the 64 values" in note and "describe 64 (in in_proj)" in note for note in found.notes)


@pytest.mark.parametrize(
    ("rows", "flags"),
    [(2, "--framework ddp --lora-rank 2 --lora-targets attention.query --observed-bytes"), (64, None)],
)
def test_an_optimizer_beside_an_adapter_is_of_its_values_or_named_as_stray(
    tmp_path: Path, rows: int, flags: str | None
) -> None:
    """Adam's two statistics of as many values as the adapter has, or of more."""
    folder = adapter(tmp_path)
    values = torch.nn.Parameter(torch.zeros(rows, 16))
    optimizer = torch.optim.AdamW([values])
    torch.autograd.backward(values.square().sum())
    optimizer.step()
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    found = contents_of(folder)
    text, notes = flags_text(found), list(resume_notes(found))
    is_stray = flags is None
    assert any("The optimizer keeps state of more than the 32 parameters" in note for note in notes) == is_stray
    assert ("--observed-bytes" in text) != is_stray
    assert text.startswith(f"ckpt-size --model NAME {flags or '--framework ddp'}")


def test_a_trainer_that_saves_an_adapter_still_tells_its_framework(tmp_path: Path) -> None:
    (adapter(tmp_path) / "trainer_state.json").write_text("{}")
    assert (
        flags_text(contents_of(tmp_path))
        == "ckpt-size --model NAME --framework transformers --lora-rank 2 --lora-targets attention.query"
    )


@pytest.mark.parametrize(("dtype", "precision"), [(torch.float32, "fp32"), (torch.bfloat16, "bf16")])
def test_a_plain_file_of_one_precision_states_it(tmp_path: Path, dtype: torch.dtype, precision: str) -> None:
    """A script that saves weights and optimizer in one file: neither Megatron's 14 bytes nor its many files."""
    weight = torch.ones(4, 8, dtype=dtype)
    moments = {"exp_avg": weight.clone(), "exp_avg_sq": weight.clone()}
    saved(tmp_path / "checkpoint.pt", {"model": {"layer.weight": weight}, "optimizer": {"state": {0: moments}}})
    size = (tmp_path / "checkpoint.pt").stat().st_size
    assert flags_text(contents_of(tmp_path / "checkpoint.pt")) == (
        f"ckpt-size --parameters 32 --framework ddp --precision {precision} --observed-bytes {size}"
    )
