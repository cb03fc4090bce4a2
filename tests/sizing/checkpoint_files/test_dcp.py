"""Torch DCP checkpoints as torch.distributed.checkpoint writes them, and `.metadata` files that lie."""

import os
import pickle
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.default_planner import create_default_local_save_plan
from torch.distributed.checkpoint.filesystem import FileSystemReader, _StorageInfo
from torch.distributed.checkpoint.metadata import (
    _MEM_FORMAT_ENCODING,
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from sizing.checkpoint_files import contents_of
from sizing.checkpoint_files.dcp import dcp_metadata
from sizing.errors import UnreadableFile
from tests.sizing.checkpoint_files.trained import described, num_parameters, read, stepped, tiny_llama

pytestmark = pytest.mark.filterwarnings("ignore")


@contextmanager
def process_group(rendezvous: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, torch.nn.Module]:
    """A bf16 FSDP2 model after a step of AdamW, saved by DCP: folder, what was saved, model."""
    folder = tmp_path_factory.mktemp("dcp") / "step"
    model: Any = tiny_llama(dtype=torch.bfloat16)
    with process_group(folder.parent / "rendezvous"), warnings.catch_warnings(action="ignore"):
        mesh = init_device_mesh("cpu", (1,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        weights, optimizer = get_state_dict(model, stepped(model))
        state = {"model": weights, "optim": optimizer, "step": 3, "rng": torch.get_rng_state()}
        save(state, checkpoint_id=folder)
    return folder, state, model


def copy_of(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_names_dtypes_and_shapes_are_those_that_were_saved(saved: Any) -> None:
    folder, state, _ = saved
    metadata = dcp_metadata((folder / ".metadata").read_bytes())
    assert read(metadata.tensors) == described(state)
    assert metadata.num_blobs > 0


def test_the_same_is_found_as_torch_finds(saved: Any) -> None:
    folder, _, _ = saved
    truth = FileSystemReader(folder).read_metadata().state_dict_metadata
    tensors = {name: entry for name, entry in truth.items() if isinstance(entry, TensorStorageMetadata)}
    metadata = dcp_metadata((folder / ".metadata").read_bytes())
    assert {t.name: t.num_elements for t in metadata.tensors} == {n: e.size.numel() for n, e in tensors.items()}
    assert metadata.num_blobs == len(truth) - len(tensors)


def test_weights_and_moments_are_told_apart(saved: Any) -> None:
    folder, _, model = saved
    contents = contents_of(folder)
    assert contents.format == "torch-dcp"
    assert contents.num_parameters == num_parameters(model)
    assert contents.part_bytes["weights"] == 2 * num_parameters(model)
    assert contents.part_bytes["moments"] == 2 * 2 * num_parameters(model)
    steps = len(list(model.parameters()))
    assert contents.part_bytes["other"] == 4 * steps + torch.get_rng_state().nbytes
    assert contents.disk_bytes == sum(path.stat().st_size for path in folder.iterdir())
    assert contents.overhead_bytes == contents.disk_bytes - contents.tensor_bytes > 0


def test_the_folder_and_its_metadata_file_say_the_same(saved: Any) -> None:
    assert contents_of(saved[0]) == contents_of(saved[0] / ".metadata")


def test_a_model_saved_flat_is_weights(tmp_path: Path) -> None:
    model = tiny_llama()
    save(model.state_dict(), checkpoint_id=tmp_path / "flat", no_dist=True)
    contents = contents_of(tmp_path / "flat")
    assert contents.num_parameters == num_parameters(model)
    assert set(contents.part_bytes) == {"weights"}


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("reduced", ["by value", "by name"])
def test_every_way_to_pickle_it_is_read(
    saved: Any, monkeypatch: pytest.MonkeyPatch, reduced: str, protocol: int
) -> None:
    """Versions of Python pickle the enumeration in it by value or by name; all of them are in the field."""

    def reduce(member: Any, _protocol: int) -> Any:
        by_value = (type(member), (member.value,))
        return by_value if reduced == "by value" else (getattr, (type(member), member.name))

    folder, state, _ = saved
    truth: Any = FileSystemReader(folder).read_metadata()
    monkeypatch.setattr(_MEM_FORMAT_ENCODING, "__reduce_ex__", reduce)
    assert read(dcp_metadata(pickle.dumps(truth, protocol)).tensors) == described(state)


def test_the_plans_that_megatron_keeps_in_the_metadata_are_passed_over(saved: Any) -> None:
    folder, state, _ = saved
    truth: Any = FileSystemReader(folder).read_metadata()
    truth.all_local_plans = [create_default_local_save_plan(state, is_coordinator=True)]
    assert read(dcp_metadata(pickle.dumps(truth)).tensors) == described(state)


def test_metadata_without_its_data_files_tells_sizes_and_says_so(saved: Any, tmp_path: Path) -> None:
    folder, _, model = saved
    shutil.copy(folder / ".metadata", tmp_path)
    contents = contents_of(tmp_path / ".metadata")
    assert contents.num_parameters == num_parameters(model)
    assert contents.absent_files == ("__0_0.distcp",)
    assert contents.overhead_bytes is None
    assert contents.observed_bytes == contents.tensor_bytes == contents_of(folder).tensor_bytes


def test_a_data_file_cut_short_is_refused(saved: Any, tmp_path: Path) -> None:
    folder = copy_of(saved[0], tmp_path)
    os.truncate(folder / "__0_0.distcp", 1000)
    with pytest.raises(UnreadableFile, match="is cut short: it has 1000 bytes"):
        contents_of(folder)


def test_metadata_cut_short_is_refused(saved: Any, tmp_path: Path) -> None:
    folder = copy_of(saved[0], tmp_path)
    whole = (folder / ".metadata").read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        (folder / ".metadata").write_bytes(whole[:size])
        with pytest.raises(UnreadableFile, match="refused as DCP metadata"):
            contents_of(folder)


def test_a_data_file_or_a_folder_without_metadata_is_refused(saved: Any, tmp_path: Path) -> None:
    folder = copy_of(saved[0], tmp_path)
    with pytest.raises(UnreadableFile, match=r"give its folder or its \.metadata"):
        contents_of(folder / "__0_0.distcp")
    (folder / ".metadata").unlink()
    with pytest.raises(UnreadableFile, match="was not finished"):
        contents_of(folder)


def lying(**changes: Any) -> bytes:
    """Metadata of one 4 x 4 tensor in two chunks, with changes to what it claims."""
    size, file, length = (
        changes.get("size", (4, 4)),
        changes.get("file", "__0_0.distcp"),
        changes.get("length", 99),
    )
    chunks = [ChunkStorageMetadata(torch.Size([2 * i, 0]), torch.Size(changes.get("chunk", (2, 4)))) for i in (0, 1)]
    tensor = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size(size), changes.get("chunks", chunks))
    storage = {MetadataIndex("w", torch.Size([2 * i, 0]), i): _StorageInfo(file, 0, length) for i in (0, 1)}
    entries: Any = changes.get("entries", {"w": tensor, "step": BytesStorageMetadata()})
    return pickle.dumps(Metadata(entries, None, changes.get("storage", storage)))


def test_metadata_that_does_not_lie_is_read() -> None:
    (tensor,) = dcp_metadata(lying()).tensors
    assert (tensor.num_elements, tensor.num_bytes) == (16, 64)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lying(chunk=(2**30, 4)), "more bytes than are stored"),
        (lying(size=(2**40, 2**40)), "at most"),
        (lying(length=-1), "not a number of bytes"),
        (lying(length=2**63), "not a number of bytes"),
        (lying(file="../../outside"), "not a file name"),
        (lying(file="/etc/passwd"), "not a file name"),
        (lying(chunks=[1]), "a chunk has no sizes"),
        (lying(entries=[1]), "not a dict"),
        (lying(storage={1: 2}), "in which file"),
        (pickle.dumps({"a": 1}), "no torch.distributed.checkpoint Metadata"),
        (pickle.dumps(os.system), "names 'posix.system'"),
    ],
)
def test_metadata_that_lies_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / ".metadata").write_bytes(content)
    with pytest.raises(UnreadableFile, match="refused as DCP metadata") as refused:
        contents_of(tmp_path)
    assert said in str(refused.value)
