"""Folders of trainers: their flags give their bytes, and what is missing, stray or saved several times is said."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from sizing.checkpoint_files import contents_of
from sizing.checkpoint_files.missing_files import missing_files
from sizing.cli.flags import with_flags
from sizing.cli.inspection_table import flags_text
from sizing.errors import UnreadableFile
from sizing.present.inspections import resume_notes
from sizing.report import SizingReport, answer
from tests.sizing.checkpoint_files import laid_folders
from tests.sizing.checkpoint_files.laid_folders import bytes_of

KINDS: dict[str, tuple[Callable[[Path], Path], str, int]] = {
    "Trainer": (laid_folders.trainer, "--framework transformers", 6),
    "Trainer, 2 ranks": (
        lambda folder: laid_folders.trainer(folder, num_ranks=2),
        "--framework transformers --data 2",
        7,
    ),
    "accelerate, 2 ranks": (
        lambda folder: laid_folders.accelerate(folder, num_ranks=2),
        "--framework accelerate --data 2",
        5,
    ),
    "Lightning": (
        lambda folder: laid_folders.lightning(folder / "a.ckpt", step=2),
        "--framework lightning",
        1,
    ),
    "script": (
        lambda folder: laid_folders.script(folder / "a.pt"),
        "--framework ddp --precision fp32",
        1,
    ),
    "ZeRO-1": (
        lambda folder: laid_folders.deepspeed(folder, stage=1),
        "--framework deepspeed --zero-stage 1 --data 2",
        3,
    ),
    "ZeRO-1, fp32": (
        lambda folder: laid_folders.deepspeed(folder, stage=1, dtype=torch.float32),
        "--framework deepspeed --zero-stage 1 --precision fp32 --data 2",
        3,
    ),
    "ZeRO-2": (
        lambda folder: laid_folders.deepspeed(folder, stage=2, num_ranks=4),
        "--framework deepspeed --zero-stage 2 --data 4",
        5,
    ),
    "ZeRO-3": (
        lambda folder: laid_folders.deepspeed(folder, stage=3),
        "--framework deepspeed --zero-stage 3 --data 2",
        4,
    ),
}


def answered(text: str) -> SizingReport:
    words = shlex.split(text)[1:]
    return answer(
        with_flags({}, {flag[2:].replace("-", "_"): value for flag, value in zip(words[::2], words[1::2], strict=True)})
    )


def state_bytes(path: Path) -> int:
    """Bytes of weights and optimizer, without random states."""
    return sum(size for part, size in contents_of(path).part_bytes.items() if part != "other")


@pytest.mark.parametrize("kind", KINDS)
def test_the_flags_of_a_folder_give_its_bytes_and_files(tmp_path: Path, kind: str) -> None:
    lay, flags, num_files = KINDS[kind]
    path = lay(tmp_path / "saved")
    text = flags_text(contents_of(path))
    size = bytes_of(path)
    assert text == f"ckpt-size --parameters {laid_folders.num_parameters()} {flags} --observed-bytes {size}"
    report = answered(text)
    assert report.checkpoint.written_bytes == pytest.approx(size, rel=0.005)
    assert report.checkpoint.num_files == num_files
    tensors = state_bytes(path)
    assert report.checkpoint.total_bytes == pytest.approx(tensors, rel=0.005), "also without what was observed"


def test_row_wise_adagrad_is_told_from_adagrad_by_its_columns(tmp_path: Path) -> None:
    """As TorchRec 1.9.2 saves it: a step and a column of sums for each table."""
    tables = [torch.zeros(64, 8), torch.zeros(128, 8)]
    state = {n: {"step": torch.tensor(1.0), "sum": torch.ones(len(table), 1)} for n, table in enumerate(tables)}
    groups = [{"lr": 0.01, "eps": 1e-10, "params": [0, 1]}]
    model = {f"t_{n}.weight": table for n, table in enumerate(tables)}
    torch.save({"model": model, "optimizer": {"state": state, "param_groups": groups}}, tmp_path / "a.pt")
    assert contents_of(tmp_path / "a.pt").optimizer == "rowwise-adagrad"


@pytest.mark.parametrize(
    ("optimizer", "settings", "name"),
    [
        (torch.optim.AdamW, {}, "adam"),
        (torch.optim.Adam, {"amsgrad": True}, "adam-amsgrad"),
        (torch.optim.SGD, {}, "sgd"),
        (torch.optim.SGD, {"momentum": 0.9}, "sgd-momentum"),
        (torch.optim.RMSprop, {}, "rmsprop"),
        (torch.optim.Adagrad, {}, "adagrad"),
        (torch.optim.Adafactor, {}, "adafactor"),
        (torch.optim.Adamax, {}, None),
        (torch.optim.ASGD, {}, None),
        (torch.optim.Rprop, {}, None),
    ],
)
def test_the_optimizer_is_read_off_its_statistics_and_settings(
    tmp_path: Path, optimizer: type[torch.optim.Optimizer], settings: dict[str, Any], name: str | None
) -> None:
    folder = laid_folders.trainer(tmp_path / "saved", optimizer=optimizer, **settings)
    contents = contents_of(folder)
    assert contents.optimizer == name
    assert contents.is_whole
    text = flags_text(contents)
    assert "--framework transformers" in text
    assert f"--observed-bytes {bytes_of(folder)}" in text
    assert any("cannot be told" in note for note in resume_notes(contents)) == (name is None)
    if name in ("adam", "adafactor", None):  # the default; what needs shapes; what is not known
        assert "--optimizer" not in text
    else:
        assert f"--optimizer {name}" in text
        assert answered(text).checkpoint.total_bytes == pytest.approx(state_bytes(folder), rel=0.005)


def test_an_optimizer_that_keeps_statistics_of_matrices_takes_the_config_beside_the_weights(tmp_path: Path) -> None:
    folder = laid_folders.trainer(tmp_path / "saved", optimizer=torch.optim.Adafactor)
    text = flags_text(contents_of(folder), str(folder))
    assert text.startswith(f"ckpt-size --hf-config {folder}/config.json --framework transformers")
    assert "--optimizer adafactor" in text
    (folder / "config.json").unlink()
    contents = contents_of(folder)
    assert "--parameters" in flags_text(contents, str(folder))
    assert any(
        "give training.optimizer adafactor, and model.preset or model.h" in note for note in resume_notes(contents)
    )


def eight_bits(folder: Path, *, first: int) -> None:
    """State as bitsandbytes keeps it, in the place of Trainer's optimizer."""
    state = {"state1": torch.zeros(first, 64, dtype=torch.uint8), "state2": torch.zeros(1, 64, dtype=torch.uint8)}
    torch.save({"state": {0: state}, "param_groups": [{"lr": 0.1}]}, folder / "optimizer.pt")


def test_adam_in_8_bits_takes_the_config_beside_the_weights_and_ademamix_is_not_adam(tmp_path: Path) -> None:
    """Embeddings keep 32 bits, so shapes count. AdEMAMix keeps two first moments in one tensor."""
    folder = laid_folders.trainer(tmp_path / "saved")
    eight_bits(folder, first=1)
    text = flags_text(contents_of(folder), str(folder))
    assert text.startswith(f"ckpt-size --hf-config {folder}/config.json --framework transformers")
    assert "--optimizer adam-8bit" in text
    eight_bits(folder, first=2)
    contents = contents_of(folder)
    assert contents.optimizer is None
    assert f"--observed-bytes {bytes_of(folder)}" in flags_text(contents)


def test_weights_that_trainer_saves_beside_those_of_deepspeed_count_once(tmp_path: Path) -> None:
    folder = laid_folders.trainer_with_deepspeed(tmp_path / "checkpoint-2", stage=2)
    contents = contents_of(folder)
    assert contents.num_parameters == laid_folders.num_parameters()
    assert [note for note in contents.notes if "weights" in note] == [
        "Copies of weights in several files: 4. As parameters they count once"
    ]
    assert flags_text(contents).startswith(
        f"ckpt-size --parameters {laid_folders.num_parameters()} --framework deepspeed --zero-stage 2 --data 2 "
        f"--observed-bytes {bytes_of(folder)}"
    )


def test_an_adapter_without_its_config_is_an_adapter_that_lacks_a_file(tmp_path: Path) -> None:
    folder = laid_folders.trainer(tmp_path / "checkpoint-2")
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    contents = contents_of(folder)
    assert (contents.is_adapter, contents.missing_files) == (True, ("adapter_config.json",))


@pytest.mark.parametrize("key", ["ema", "model_ema", "ema_state_dict"])
def test_a_moving_average_of_the_weights_is_said_to_be_there(tmp_path: Path, key: str) -> None:
    path = laid_folders.script(tmp_path / "a.pt")
    assert not any("EMA" in note for note in contents_of(path).notes)
    content = torch.load(path)
    torch.save(content | {key: {name: value.half() for name, value in content["model"].items()}}, path)
    contents, count = contents_of(path), laid_folders.num_parameters()
    assert contents.num_parameters == count
    (note,) = contents.notes
    assert f"(EMA) is saved too, {count:,} values in float16, {2 * count / 1000:.2f} kB" in note
    assert "training.saved_state.ema" in note


def test_adam_that_has_not_stepped_is_no_sgd(tmp_path: Path) -> None:
    model = laid_folders.tiny_model()
    torch.save(
        {"model": model.state_dict(), "optimizer": torch.optim.AdamW(model.parameters()).state_dict()},
        tmp_path / "a.pt",
    )
    contents = contents_of(tmp_path)
    assert (contents.optimizer, contents.is_whole) == (None, False)


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("Trainer", "optimizer.pt"),
        ("Trainer", "model.safetensors"),
        ("ZeRO-1", "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"),
        ("ZeRO-3", "zero_pp_rank_1_mp_rank_00_model_states.pt"),
    ],
)
def test_a_folder_that_lacks_a_file_gives_no_bytes(tmp_path: Path, kind: str, missing: str) -> None:
    folder = KINDS[kind][0](tmp_path / "saved")
    (folder / missing).unlink()
    contents = contents_of(folder)
    assert contents.missing_files == (missing,)
    assert "--observed-bytes" not in flags_text(contents)
    assert any(f"{missing} is missing" in note for note in contents.notes)


@pytest.mark.parametrize(
    ("names", "missing", "is_known"),
    [
        (["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"], 1, False),
        (["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"], 1, False),
        ([f"mp_rank_0{rank}/model_optim_rng.pt" for rank in range(3)], 1, False),
        (["model.safetensors", "optimizer-00001-of-00002.bin", "optimizer-00002-of-00002.bin"], 2, True),
    ],
)
def test_where_weights_are_missing_the_number_of_parameters_is_not_known(
    tmp_path: Path, names: list[str], missing: int, *, is_known: bool
) -> None:
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        weights = {f"layers.{number}.weight": torch.zeros(4, 3)}
        if name.endswith(".safetensors"):
            save_file(weights, tmp_path / name)
        elif name.startswith("optimizer"):
            torch.save({"state": {number: {"exp_avg": torch.zeros(4, 3)}}}, tmp_path / name)
        else:
            torch.save({"model": weights} if "/" in name else weights, tmp_path / name)
    assert contents_of(tmp_path).num_parameters == sum(12 for name in names if not name.startswith("optimizer"))
    (tmp_path / names[missing]).unlink()
    contents = contents_of(tmp_path)
    assert contents.missing_files == (names[missing],)
    assert contents.num_parameters == (12 if is_known else None)
    assert flags_text(contents).startswith(f"ckpt-size {'--parameters 12' if is_known else '--model NAME'}")


@pytest.mark.parametrize("stage", [1, 3])
def test_a_shard_of_zero_that_is_missing_leaves_the_number_of_parameters_known(tmp_path: Path, stage: int) -> None:
    folder = laid_folders.deepspeed(tmp_path / "global_step2", stage=stage)
    count = contents_of(folder).num_parameters
    assert count
    (folder / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    assert contents_of(folder).num_parameters == count


@pytest.mark.parametrize("suffix", ["tar", "jsonl", "log", "12345"])
def test_a_stray_file_is_named_and_not_counted(tmp_path: Path, suffix: str) -> None:
    folder = laid_folders.trainer(tmp_path / "saved")
    size = bytes_of(folder)
    (folder / f"stray.{suffix}").write_bytes(b"x" * 54 * size)
    contents = contents_of(folder)
    assert contents.disk_bytes == size
    assert any(f"not counted: stray.{suffix}" in note for note in contents.notes)


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (["epoch=0-step=5.ckpt", "epoch=0-step=10.ckpt", "epoch=1-step=15.ckpt"], "epoch=1-step=15.ckpt"),
        (["ckpt_5.pt", "ckpt_10.pt", "ckpt_15.pt"], "ckpt_15.pt"),
        (["checkpoint_epoch_9.pth", "checkpoint_epoch_10.pth"], "checkpoint_epoch_10.pth"),
    ],
)
def test_saves_in_files_of_one_folder_are_not_summed(tmp_path: Path, names: list[str], newest: str) -> None:
    for name in names:
        laid_folders.script(tmp_path / name)
    laid_folders.script(tmp_path / "last.ckpt")
    with pytest.raises(UnreadableFile, match=f"holds {len(names)} checkpoints .*last.ckpt beside them") as refused:
        contents_of(tmp_path)
    assert str(refused.value).endswith(f"give one of them: {tmp_path / newest}.")


@pytest.mark.parametrize(
    "names",
    [["best.pt", "last.pt", "ckpt_best.pt"], ["run_5k.pth", "run_10k.pth"], ["epoch=0-step=6.ckpt", "last.ckpt"]],
)
def test_saves_without_a_step_in_their_names_are_known_by_their_contents(tmp_path: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        os.utime(laid_folders.script(tmp_path / name), (number, number))
    with pytest.raises(UnreadableFile, match=f"holds {len(names)} checkpoints .*: give one of them: ") as refused:
        contents_of(tmp_path)
    assert str(refused.value).endswith(f"{tmp_path / names[-1]}.")


@pytest.mark.parametrize("names", [["rank0.pt", "rank1.pt"], ["0.pt", "1.pt"], ["shard-7.pt", "shard-8.pt"]])
def test_files_of_ranks_are_one_save(tmp_path: Path, names: list[str]) -> None:
    size = sum(bytes_of(laid_folders.script(tmp_path / name)) for name in names)
    assert contents_of(tmp_path).disk_bytes == size


def test_saves_in_two_files_each_are_counted_by_their_steps(tmp_path: Path) -> None:
    for step in (5, 10):
        for what in ("model", "optimizer"):
            laid_folders.script(tmp_path / f"{what}_{step}.pt")
    with pytest.raises(UnreadableFile, match=r"holds 2 checkpoints .* of its own: model_10\.pt, optimizer_10\.pt"):
        contents_of(tmp_path)


def test_the_newest_of_several_folders_is_the_one_of_the_highest_step(tmp_path: Path) -> None:
    for step in (5, 10, 15):
        laid_folders.deepspeed(tmp_path / f"global_step{step}", stage=1)
    with pytest.raises(
        UnreadableFile, match=r"\(global_step5 to global_step15\): give one of them: .*/global_step15\."
    ):
        contents_of(tmp_path)


OF_DEEPSPEED = ("latest", "global_step4/mp_rank_00_model_states.pt")
SHARDED_BY_FSDP = ("pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata")


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["a-00001-of-00003.safetensors", "a-00003-of-00003.safetensors"], ["a-00002-of-00003.safetensors"]),
        (["process_0-of-2.json"], ["process_1-of-2.json"]),
        (
            [f"mp_rank_{t:02}_{p:03}/model_optim_rng.pt" for t, p in ((0, 0), (1, 0), (0, 1))],
            ["mp_rank_01_001/model_optim_rng.pt"],
        ),
        ([f"mp_rank_{t:02}_{t:03}/model_optim_rng.pt" for t in range(2)], []),
        (["mp_rank_00/model_optim_rng.pt", "mp_rank_02/model_optim_rng.pt"], ["mp_rank_01/model_optim_rng.pt"]),
        (["trainer_state.json", "model.safetensors", "config.json"], []),
        ([*SHARDED_BY_FSDP, "trainer_state.json", "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"], []),
        ([*SHARDED_BY_FSDP, "trainer_state.json", "scheduler.pt"], ["rng_state.pth"]),
        ([*SHARDED_BY_FSDP, "trainer_state.json", "rng_state_0.pth", "rng_state_1.pth"], ["scheduler.pt"]),
        ([*SHARDED_BY_FSDP, "scheduler.pt", "rng_state_0.pth", "rng_state_1.pth"], ["trainer_state.json"]),
        ([*SHARDED_BY_FSDP, "scheduler.bin", "random_states_0.pkl"], []),
        ([*OF_DEEPSPEED, "trainer_state.json", "model.safetensors", "scheduler.pt", "rng_state.pth"], []),
        (
            [*OF_DEEPSPEED, "trainer_state.json", "adapter_model.safetensors", "adapter_config.json", "rng_state.pth"],
            [],
        ),
        ([*OF_DEEPSPEED, "trainer_state.json"], ["model.safetensors", "rng_state.pth"]),
        ([f"global_step4/zero_pp_rank_0_mp_rank_00_{what}_states.pt" for what in ("model", "optim")], []),
        (
            [
                *(f"global_step4/zero_pp_rank_0_mp_rank_00_{what}_states.pt" for what in ("model", "optim")),
                "trainer_state.json",
            ],
            ["latest"],
        ),
        (["model/__0_0.distcp", "model/__1_0.distcp", "random_states_0.pkl"], ["random_states_1.pkl"]),
    ],
)
def test_names_say_what_is_missing(names: list[str], missing: list[str]) -> None:
    assert [each.name for each in missing_files(names)] == missing
