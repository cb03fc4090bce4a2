"""Safetensors files, their index and folders: what the header says, and which headers are refused."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from sizing.checkpoint_files import contents_of
from sizing.checkpoint_files.safetensors import MAX_HEADER_BYTES, safetensors_tensors
from sizing.errors import UnreadableFile
from tests.sizing.checkpoint_files.trained import described, num_parameters, read, tiny_llama

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e8m0fnu,
    torch.complex64,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint64,
    torch.uint32,
    torch.uint16,
    torch.uint8,
    torch.bool,
]


def save_pretrained(model: Any, folder: Path, *, shard: str = "1GB") -> Path:
    model.save_pretrained(folder, max_shard_size=shard)
    return folder


def safetensors_bytes(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(begin: int, end: int, *, dtype: str = "U8", shape: Any = None) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def refusal_of(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(UnreadableFile) as refused:
        contents_of(path)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_every_dtype_is_read_as_torch_names_it(tmp_path: Path) -> None:
    state = {str(dtype): torch.zeros(3, 2).to(dtype) for dtype in DTYPES} | {"scalar": torch.tensor(1.0)}
    safetensors.torch.save_file(state, tmp_path / "all.safetensors")
    tensors = safetensors_tensors(tmp_path / "all.safetensors")
    assert read(tensors) == described(state)
    assert {tensor.name: tensor.num_bytes for tensor in tensors} == {n: t.nbytes for n, t in state.items()}


def test_a_model_has_the_parameters_that_torch_counts(tmp_path: Path) -> None:
    model = tiny_llama(dtype=torch.bfloat16)
    contents = contents_of(save_pretrained(model, tmp_path) / "model.safetensors")
    assert contents.format == "safetensors"
    assert contents.num_parameters == num_parameters(model)
    assert contents.part_bytes == {"weights": 2 * num_parameters(model)}
    assert contents.disk_bytes == (tmp_path / "model.safetensors").stat().st_size
    assert contents.overhead_bytes == contents.disk_bytes - contents.tensor_bytes > 8


def test_tied_weights_are_stored_and_counted_once(tmp_path: Path) -> None:
    model = tiny_llama(tied=True)
    assert contents_of(save_pretrained(model, tmp_path)).num_parameters == num_parameters(model)


def test_a_folder_counts_its_other_files_as_overhead(tmp_path: Path) -> None:
    contents = contents_of(save_pretrained(tiny_llama(), tmp_path))
    assert {file.name: file.format for file in contents.files}["config.json"] == "other"
    assert contents.disk_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert contents.largest_file.name == "model.safetensors"


def test_a_sharded_model_is_the_sum_of_its_shards(tmp_path: Path) -> None:
    model = tiny_llama()
    folder = save_pretrained(model, tmp_path, shard="20KB")
    index = folder / "model.safetensors.index.json"
    by_folder, by_index = contents_of(folder), contents_of(index)
    assert len([file for file in by_index.files if file.name.endswith(".safetensors")]) > 2
    assert by_folder.num_parameters == by_index.num_parameters == num_parameters(model)
    assert by_index.tensor_bytes == json.loads(index.read_text())["metadata"]["total_size"]
    assert by_index.disk_bytes == by_folder.disk_bytes - sum(
        file.num_bytes for file in by_folder.files if file.format == "other"
    )


def test_an_index_alone_tells_its_totals_and_says_so(tmp_path: Path) -> None:
    model = tiny_llama()
    folder = save_pretrained(model, tmp_path, shard="20KB")
    alone = tmp_path / "alone" / "model.safetensors.index.json"
    alone.parent.mkdir()
    index = json.loads((folder / alone.name).read_text())
    alone.write_text(json.dumps(index))
    contents = contents_of(alone)
    assert contents.tensor_bytes == contents.observed_bytes == 4 * num_parameters(model)
    assert contents.num_parameters == index["metadata"].get("total_parameters")
    assert contents.overhead_bytes is None
    assert contents.tensors == ()
    assert len(contents.absent_files) == len(set(index["weight_map"].values()))
    assert "No shard is in the folder" in contents.notes[0]


def test_an_index_without_total_parameters_leaves_them_unknown(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 1e9}, "weight_map": {"a": "x.safetensors"}}))
    contents = contents_of(path)
    assert (contents.num_parameters, contents.tensor_bytes) == (None, 10**9)


def test_a_missing_shard_is_refused(tmp_path: Path) -> None:
    folder = save_pretrained(tiny_llama(), tmp_path, shard="20KB")
    next(folder.glob("model-00002*")).unlink()
    with pytest.raises(UnreadableFile, match="1 are missing"):
        contents_of(folder)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (b"{", "not a safetensors index"),
        (b"[1]", "not an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b"{}", "no weight_map"),
        (b'{"weight_map": {"a": "../../etc/passwd"}}', "not a file name in its folder"),
        (b'{"weight_map": {"a": "/etc/passwd"}}', "not a file name in its folder"),
        (b'{"weight_map": {"a": 3}}', "not a file name in its folder"),
        (b'{"weight_map": {"a": "pytorch_model-00001.bin"}}', "no safetensors file: give the folder"),
        (b'{"weight_map": {"a": "x.safetensors"}, "weight_map": {"a": "y.safetensors"}}', "given twice"),
        (b'{"weight_map": {"a": "x.safetensors"}}', "no metadata.total_size"),
        (b'{"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": -4}}', "no metadata.total_size"),
        (
            b'{"weight_map": {"a": "x.safetensors"}, "metadata": {"total_size": NaN}}',
            "NaN is not a JSON number",
        ),
    ],
)
def test_a_bad_index_is_refused(tmp_path: Path, index: bytes, said: str) -> None:
    assert said in refusal_of(tmp_path / "model.safetensors.index.json", index)


def test_an_index_that_contradicts_its_shards_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        safetensors.torch.save_file({name: torch.zeros(2)}, tmp_path / f"{name}.safetensors")
    index: dict[str, Any] = {"weight_map": {"a": "b.safetensors", "b": "a.safetensors"}}
    path = tmp_path / "model.safetensors.index.json"
    assert "does not list" in refusal_of(path, json.dumps(index).encode())
    index = {"weight_map": {"a": "a.safetensors", "b": "b.safetensors", "c": "b.safetensors"}}
    assert "1 tensors that no shard holds" in refusal_of(path, json.dumps(index).encode())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no whole safetensors file"),
        (b"\x08\x00", "no whole safetensors file"),
        (safetensors_bytes({}, length=2**63), "claims 9223372036854775808 bytes"),
        (safetensors_bytes({}, length=2**64 - 1), "no whole safetensors file"),
        (safetensors_bytes({"a": entry(0, 4)}, b"123"), "the file holds 3"),
        (safetensors_bytes({"a": entry(0, 4)}, b"12345"), "the file holds 5"),
        (safetensors_bytes({"a": entry(0, 4), "b": entry(2, 6)}, b"123456"), "overlap at byte 2"),
        (safetensors_bytes({"a": entry(0, 4), "b": entry(0, 4)}, b"1234"), "overlap at byte 0"),
        (safetensors_bytes({"a": entry(0, 2), "b": entry(3, 4)}, b"1234"), "leave a gap at byte 3"),
        (safetensors_bytes({"a": entry(4, 0)}, b"1234"), "in order"),
        (safetensors_bytes({"a": entry(0, 4, dtype="F32", shape=[2])}, b"1234"), "its shape needs 8"),
        (safetensors_bytes({"a": entry(0, 4, shape=[2**40, 2**40, 0])}, b"1234"), "its shape needs 0"),
        (safetensors_bytes({"a": entry(0, 4, shape=[2**70] * 64)}, b"1234"), "at most"),
        (safetensors_bytes({"a": entry(0, 4, shape=[1] * 65)}, b"1234"), "at most 64"),
        (safetensors_bytes({"a": entry(0, 4, shape=[-2, -2])}, b"1234"), "negative"),
        (safetensors_bytes({"a": entry(0, 4, shape=[4.0])}, b"1234"), "whole numbers"),
        (safetensors_bytes({"a": entry(0, 4, shape=[True, 4])}, b"1234"), "whole numbers"),
        (safetensors_bytes({"a": entry(0, 4, dtype="Q9")}, b"1234"), "'Q9' is not known"),
        (safetensors_bytes({"a": {"dtype": "U8"}}, b"1234"), "must have dtype, shape"),
        (safetensors_bytes({"a": 1}), "must have dtype, shape"),
        (safetensors_bytes([1]), "not an object"),
        (safetensors_bytes(b"[" * 200_000), "nested too deeply"),
        (safetensors_bytes(b"{" + b'"a":{' * 100_000), "nested too deeply"),
        (safetensors_bytes(b"\xff\xfe\xff"), "not UTF-8"),
        (safetensors_bytes(b'{"a": ' + b"9" * 5000 + b"}"), "breaks the safetensors format"),
        (
            safetensors_bytes(b'{"a\\u001b[31m": {"dtype": "U8"}}'),
            r"\x1b",
        ),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    assert said in refusal_of(tmp_path / "bad.safetensors", content)


def test_a_header_beyond_the_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", MAX_HEADER_BYTES + 1))
        file.truncate(10 * MAX_HEADER_BYTES)
    with pytest.raises(UnreadableFile, match=r"more than the max of 33.55 MB"):
        contents_of(path)


@given(content=st.binary(max_size=200))
def test_random_bytes_are_refused_in_one_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("random") / "random.safetensors"
    assert str(path) in refusal_of(path, content)


@given(cut=st.integers(0, 400))
def test_a_file_cut_short_anywhere_is_refused(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    whole = safetensors.torch.save({f"layer.{i}.weight": torch.zeros(4, 4) for i in range(4)})
    folder = tmp_path_factory.mktemp("cut")
    refusal_of(folder / "cut.safetensors", whole[: min(cut, len(whole) - 1)])
