"""torch.save files: what is read equals what torch saved, shared storages once, and nothing runs."""

import argparse
import collections
import io
import os
import pickle
import random
import signal
import struct
import types
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sizing.checkpoint_files import contents_of
from sizing.checkpoint_files.torch_save import torch_container
from sizing.errors import UnreadableFile
from tests.sizing.checkpoint_files.trained import described, num_parameters, read, stepped, tiny_llama


def saved(state: object, path: Path) -> Path:
    torch.save(state, path)
    return path


def refusal_of(path: Path) -> str:
    with pytest.raises(UnreadableFile) as refused:
        contents_of(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def archive(path: Path, pickled: bytes, **records: bytes) -> Path:
    """A zip archive as torch lays it out, with any pickle in it."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/data.pkl", pickled)
        for name, content in records.items():
            file.writestr(f"a/data/{name}", content)
    return path


@pytest.fixture
def checkpoint() -> dict[str, Any]:
    model = tiny_llama()
    optimizer = stepped(model)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": 7,
        "loss": 2.5,
        "rng_state": {
            "torch": torch.get_rng_state(),
            "python": random.getstate(),
            "numpy": np.random.get_state(),
        },
        "args": argparse.Namespace(hidden=32, path=Path("here"), dtype=torch.bfloat16, device=torch.device("cpu")),
        "signal": signal.SIGTERM,
        "space": types.SimpleNamespace(a=io.BytesIO(b"abc")),
        "counts": collections.Counter("aab"),
        "defaults": collections.defaultdict(list, a=[1]),
        "set": {1, 2},
        "shape": torch.Size([1, 2]),
        "complex": 1j,
        "bytes": b"abc",
        "scalar": np.float32(1.5),
    }


def test_names_dtypes_and_shapes_are_those_that_were_saved(tmp_path: Path, checkpoint: dict[str, Any]) -> None:
    container = torch_container(saved(checkpoint, tmp_path / "a.pt"))
    assert read(container.tensors) == described(checkpoint)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_pickle_protocol_is_read(tmp_path: Path, checkpoint: dict[str, Any], protocol: int) -> None:
    torch.save(checkpoint, tmp_path / "a.pt", pickle_protocol=protocol)
    assert read(torch_container(tmp_path / "a.pt").tensors) == described(checkpoint)


def test_weights_moments_and_the_rest_are_told_apart(tmp_path: Path, checkpoint: dict[str, Any]) -> None:
    path = saved(checkpoint, tmp_path / "a.pt")
    contents, count = contents_of(path), num_parameters(tiny_llama())
    assert contents.format == "torch-save"
    assert contents.num_parameters == count
    assert contents.part_bytes["weights"] == 4 * count
    assert contents.part_bytes["moments"] == 8 * count
    steps = 4 * len(checkpoint["optimizer"]["state"])
    assert contents.part_bytes["other"] == steps + torch.get_rng_state().nbytes
    assert contents.disk_bytes == path.stat().st_size
    assert contents.overhead_bytes == contents.disk_bytes - contents.tensor_bytes


@pytest.mark.parametrize("branch", ["master", "fp32_params", "model_fp32"])
def test_a_master_copy_beside_the_weights_is_no_parameters(tmp_path: Path, branch: str) -> None:
    model = tiny_llama()
    state: dict[str, Any] = {branch: model.state_dict(), "optimizer": stepped(model).state_dict()}
    count = num_parameters(model)
    alone = contents_of(saved(state, tmp_path / "alone.pt"))
    beside = contents_of(
        saved(state | {"model": tiny_llama(dtype=torch.bfloat16).state_dict()}, tmp_path / "beside.pt")
    )
    assert alone.num_parameters == beside.num_parameters == count
    assert (beside.part_bytes["weights"], beside.part_bytes["master"]) == (2 * count, 4 * count)
    assert beside.part_bytes["moments"] == 8 * count


@pytest.mark.parametrize(
    ("options", "moments"),
    [({}, 2), ({"amsgrad": True}, 3), ({"foreach": False}, 2), ({"fused": True}, 2)],
)
def test_an_optimizer_alone_is_moments(tmp_path: Path, options: dict[str, Any], moments: int) -> None:
    model = tiny_llama()
    contents = contents_of(saved(stepped(model, **options).state_dict(), tmp_path / "optimizer.pt"))
    assert contents.part_bytes["moments"] == 4 * moments * num_parameters(model)
    assert contents.num_parameters is None


@pytest.mark.parametrize("optimizer", ["SGD", "RMSprop", "Adagrad", "Adamax", "NAdam", "RAdam", "Adadelta"])
def test_the_moments_of_every_optimizer_are_recognised(tmp_path: Path, optimizer: str) -> None:
    model = torch.nn.Linear(4, 4)
    options: dict[str, Any] = {"momentum": 0.9} if optimizer == "SGD" else {}
    stepper = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1, **options)
    model(torch.ones(1, 4)).sum().backward()
    stepper.step()
    state = stepper.state_dict()
    of_shape = sum(
        value.nbytes
        for entry in state["state"].values()
        for value in entry.values()
        if isinstance(value, torch.Tensor) and value.dim()
    )
    contents = contents_of(saved({"optimizer": state}, tmp_path / "a.pt"))
    assert contents.part_bytes["moments"] == of_shape > 0


def test_a_flat_state_dict_is_weights_and_buffers(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    model.register_parameter("scale", torch.nn.Parameter(torch.ones(5)))
    contents = contents_of(saved(model.state_dict(), tmp_path / "a.pth"))
    assert contents.num_parameters == num_parameters(model)
    assert contents.part_bytes["other"] == 2 * 3 * 4 + 8


def test_parameters_are_read_as_tensors(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 3)
    contents = contents_of(saved(dict(model.named_parameters()), tmp_path / "a.pt"))
    assert contents.num_parameters == 15


def test_the_state_of_a_generator_counts(tmp_path: Path) -> None:
    contents = contents_of(saved({"generator": torch.Generator(), "step": 1}, tmp_path / "a.pt"))
    assert contents.part_bytes == {"other": torch.get_rng_state().nbytes}


def test_tied_weights_are_counted_once(tmp_path: Path) -> None:
    model = tiny_llama(tied=True)
    contents = contents_of(saved({"model": model.state_dict()}, tmp_path / "a.pt"))
    assert contents.num_parameters == num_parameters(model)
    assert contents.num_aliases == 1
    assert contents.part_bytes == {"weights": 4 * num_parameters(model)}


def test_views_of_one_storage_count_each_element_once(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    views = {
        "rows.weight": whole[:2],
        "last.weight": whole[1:],
        "same.weight": whole[:2],
        "column.weight": whole[:, 1],
    }
    contents = contents_of(saved(views, tmp_path / "a.pt"))
    assert (contents.num_parameters, contents.tensor_bytes) == (12, 48)


def test_columns_of_one_storage_add_up(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    contents = contents_of(saved({"a.weight": whole[:, :1], "b.weight": whole[:, 1:]}, tmp_path / "a.pt"))
    assert contents.num_parameters == 12


def test_a_slice_counts_its_elements_and_the_rest_is_overhead(tmp_path: Path) -> None:
    contents = contents_of(saved({"a.weight": torch.zeros(1000)[:10]}, tmp_path / "a.pt"))
    assert (contents.num_parameters, contents.tensor_bytes) == (10, 40)
    assert contents.overhead_bytes is not None
    assert contents.overhead_bytes > 3960


def test_an_expanded_tensor_counts_what_is_stored(tmp_path: Path) -> None:
    contents = contents_of(saved({"a.weight": torch.zeros(1).expand(1000)}, tmp_path / "a.pt"))
    assert (contents.num_parameters, contents.tensor_bytes) == (1, 4)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.bool, torch.complex64])
def test_dtypes_that_have_no_storage_class_are_read(tmp_path: Path, dtype: torch.dtype) -> None:
    state = {"a": torch.zeros(3, 2).to(dtype)}
    (tensor,) = torch_container(saved(state, tmp_path / "a.pt")).tensors
    assert read((tensor,)) == described(state)
    assert tensor.num_bytes == state["a"].nbytes


def test_integer_weights_leave_the_parameters_unknown(tmp_path: Path) -> None:
    contents = contents_of(saved({"a.weight": torch.zeros(8, dtype=torch.int8)}, tmp_path / "a.pt"))
    assert contents.num_parameters is None
    assert "stored as integers" in contents.notes[0]


def test_the_old_format_is_refused_by_name(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(3)}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    assert "old non-zip format" in refusal_of(tmp_path / "a.pt")


def test_a_torchscript_archive_is_refused_by_name(tmp_path: Path) -> None:
    path = saved({"a": torch.zeros(3)}, tmp_path / "a.pt")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("a/constants.pkl", b"")
    assert "TorchScript" in refusal_of(path)


class Attack:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def attacks(trap: Path) -> list[Attack]:
    return [
        Attack(os.system, f"touch {trap}"),
        Attack(eval, f"open({str(trap)!r}, 'w')"),
        Attack(exec, f"open({str(trap)!r}, 'w')"),
        Attack(open, str(trap), "w"),
        Attack(getattr, os, "system"),
        Attack(pickle.loads, pickle.dumps(Attack(os.system, f"touch {trap}"))),
        Attack(torch.load, str(trap)),
    ]


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("container", ["a.pt", ".metadata"])
def test_a_pickle_that_calls_is_refused_and_nothing_runs(tmp_path: Path, number: int, container: str) -> None:
    trap = tmp_path / "trap"
    attack = attacks(trap)[number]
    path = tmp_path / container
    try:
        pickled = pickle.dumps({"model": attack}, 2)
    except TypeError:  # a module cannot be pickled: written by hand
        pickled = b"\x80\x02cbuiltins\ngetattr\ncos\n__dict__\nX\x06\x00\x00\x00system\x86R."
    if container == ".metadata":
        path.write_bytes(pickled)
    else:
        archive(path, pickled)
    assert "which no plain checkpoint needs" in refusal_of(path)
    assert not trap.exists()


def test_the_same_attack_does_run_in_plain_pickle(tmp_path: Path) -> None:
    """The trap of the test above works, so that its silence means something."""
    pickled = pickle.dumps(Attack(os.system, f"touch {tmp_path / 'trap'}"))
    pickle.loads(pickled)  # noqa: S301 - what the reader must not do
    assert (tmp_path / "trap").exists()


def test_a_pickle_with_2_to_the_100_paths_is_walked_once(tmp_path: Path) -> None:
    laughs = b"\x80\x02]q\x00" + b"".join(
        b"]q" + bytes([i + 1]) + b"(h" + bytes([i]) + b"h" + bytes([i]) + b"e" for i in range(100)
    )
    contents = "nests deeper than 64 levels"
    assert contents in refusal_of(archive(tmp_path / "a.pt", laughs + b"."))
    shallow = b"\x80\x02]q\x00" + b"".join(
        b"]q" + bytes([i + 1]) + b"(" + (b"h" + bytes([i])) * 100 + b"e" for i in range(60)
    )
    assert contents_of(archive(tmp_path / "b.pt", shallow + b".")).tensors == ()


def test_a_list_that_holds_itself_is_walked_once(tmp_path: Path) -> None:
    assert contents_of(archive(tmp_path / "a.pt", b"\x80\x02]q\x00h\x00a.")).tensors == ()


def rebuilt(
    *, shape: object = (2,), strides: object = (1,), offset: object = 0, numel: object = 2, key: object = "0"
) -> bytes:
    """The pickle of one float32 tensor, with whatever it claims."""

    def value(item: object) -> bytes:
        return pickle.dumps(item, 2)[2:-1]

    storage = b"(" + value("storage") + b"ctorch\nFloatStorage\n" + value(key) + value("cpu") + value(numel) + b"tQ"
    arguments = b"(" + storage + value(offset) + value(shape) + value(strides) + b"\x89}t"
    return b"\x80\x02}" + value("a.weight") + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"Rs."


def test_the_hand_written_tensor_is_read(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", rebuilt(), **{"0": b"\0" * 8})
    assert contents_of(path).num_parameters == 2


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"shape": (2**62,), "strides": (0,), "numel": 1}, "instead of 4"),
        ({"shape": (3,)}, "beyond its storage"),
        ({"offset": 1}, "beyond its storage"),
        ({"offset": -1}, "no offset"),
        ({"strides": (-1,)}, "not a whole number"),
        ({"strides": (1, 1)}, "no shape and strides"),
        ({"shape": [2]}, "no shape and strides"),
        ({"shape": (2.0,)}, "not a whole number"),
        ({"shape": (2**62, 2**62), "strides": (0, 0)}, "at most"),
        ({"shape": (1,) * 65, "strides": (0,) * 65}, "at most 64"),
        ({"numel": 2**62, "shape": (2**62,)}, "8 bytes instead of"),
        ({"numel": -1}, "no key, dtype or size"),
        ({"key": "7"}, "is missing"),
        ({"key": 7}, "no key, dtype or size"),
    ],
)
def test_a_tensor_that_cannot_be_is_refused(tmp_path: Path, claims: dict[str, Any], said: str) -> None:
    assert said in refusal_of(archive(tmp_path / "a.pt", rebuilt(**claims), **{"0": b"\0" * 8}))


def test_a_file_cut_short_is_refused(tmp_path: Path, checkpoint: dict[str, Any]) -> None:
    path = saved(checkpoint, tmp_path / "a.pt")
    whole = path.read_bytes()
    for size in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert str(path) in refusal_of(path)


def test_a_changed_pickle_is_refused(tmp_path: Path) -> None:
    path = saved({"a.weight": torch.zeros(3)}, tmp_path / "a.pt")
    path.write_bytes(path.read_bytes().replace(b"a.weight", b"b.weight", 1))
    assert "damaged zip archive" in refusal_of(path)


def test_compressed_records_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a/data.pkl", b"\x80\x02N." + b"\0" * 10_000_000)
    assert "compressed" in refusal_of(tmp_path / "a.pt")


def test_records_that_claim_more_than_the_file_has_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", rebuilt(), **{"0": b"\0" * 8})
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 20 : entry + 28] = struct.pack("<II", 2**31, 2**31)
    path.write_bytes(content)
    assert "claims zip records of" in refusal_of(path)


def test_a_directory_that_claims_gigabytes_is_refused_unread(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.pt", b"\x80\x02N.")
    content = bytearray(path.read_bytes())
    content[:0] = b"PK\x03\x04" + b"\0" * 40_000_000
    end = content.rindex(b"PK\x05\x06")
    content[end + 12 : end + 20] = struct.pack("<II", 39_000_000, 0)
    path.write_bytes(content)
    assert "directory takes more than" in refusal_of(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_records_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as file:
        file.writestr("a/data.pkl", b"\x80\x02N.")
        file.writestr("a/data.pkl", b"\x80\x02N.")
    assert "two zip records" in refusal_of(tmp_path / "a.pt")


def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as file:
        file.writestr("word/document.xml", b"")
    assert "without the data.pkl" in refusal_of(tmp_path / "a.pt")
