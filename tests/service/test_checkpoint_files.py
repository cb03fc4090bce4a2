"""Manifests of checkpoints to come and inspections of those that exist, over REST."""

import base64
import csv
import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from torch.distributed.checkpoint.state_dict_saver import save

from sizing.checkpoint_files import contents_of
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.sized_layout import manifest_of
from tests.sizing.checkpoint_files.trained import tiny_llama

WORDS = {"accept": "application/vnd.checkpoint-sizing.presentation+json"}
WIDE = {
    "model": {"preset": "llama-3.1-405b"},
    "training": {"framework": "fsdp2"},
    "parallelism": {"tensor": 8, "data": 16384},
}


def manifest(client: httpx.Client, **request: Any) -> dict[str, Any]:
    answer = client.post("/v1/manifests", json={"scenario": REFERENCE_SCENARIO} | request)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_pages_of_a_manifest_are_all_files_once(client: httpx.Client) -> None:
    files: list[dict[str, Any]] = []
    place: int | None = 0
    while place is not None:
        page = manifest(client, first=place, max_files=200)
        files, place = files + page["files"], page["next"]
    assert [tuple(file.values()) for file in files] == [*manifest_of(scenario_from(REFERENCE_SCENARIO))]
    assert page["checkpoint"]["num_files"] == len(files) == 512
    assert sum(each["num_ranks"] for each in page["rank_classes"]) == 512
    assert manifest(client, first=512) | {"checkpoint": 0, "rank_classes": 0} == {
        "checkpoint": 0,
        "rank_classes": 0,
        "first": 512,
        "files": [],
        "next": None,
    }


def test_as_csv_a_manifest_is_what_the_terminal_prints(client: httpx.Client) -> None:
    answer = client.post("/v1/manifests", json={"scenario": REFERENCE_SCENARIO}, headers={"accept": "text/csv"})
    heading, *rows = csv.reader(answer.text.splitlines())
    assert heading == ["file", "tensor_bytes", "container_bytes", "rank", "node", "stage"]
    assert rows == [[str(cell) for cell in row] for row in manifest_of(scenario_from(REFERENCE_SCENARIO))]


def test_of_a_world_with_too_many_files_the_classes_tell_all(client: httpx.Client) -> None:
    found = manifest(client, scenario=WIDE)
    assert (found["files"], found["next"]) == (None, None)
    assert sum(each["num_ranks"] for each in found["rank_classes"]) == 8 * 16384
    refused = client.post("/v1/manifests", json={"scenario": WIDE}, headers={"accept": "text/csv"})
    assert refused.status_code == 422
    assert "read the classes of ranks" in refused.json()["detail"]
    shown = client.post("/v1/manifests", json={"scenario": WIDE}, headers=WORDS).json()
    assert shown["remarks"] == ["131,073 files are too many to name each: the classes of ranks tell all of them."]


def test_a_manifest_finds_the_layout_that_is_left_open(client: httpx.Client) -> None:
    found = manifest(
        client, scenario={"model": {"preset": "llama-3.1-8b"}, "cluster": {"node": "dgx-h100", "num_gpus": 16}}
    )
    assert found["checkpoint"]["num_files"] == len(found["files"])


def sent(name: str, content: bytes) -> dict[str, str]:
    return {"name": name, "content": base64.b64encode(content).decode()}


@pytest.mark.parametrize("content", ["*", "YWJj*", "YWJjZA", "YW=Jj", "é"])
@pytest.mark.parametrize(("path", "field"), [("inspections", "content"), ("offer-tables", "xlsx")])
def test_what_is_no_base64_is_refused_as_such(client: httpx.Client, path: str, field: str, content: str) -> None:
    body = {field: content} | ({"name": "model.safetensors"} if path == "inspections" else {})
    refused = client.post(f"/v1/{path}", json=body)
    assert refused.status_code == 422
    assert f"{field} must be base64 with its padding" in refused.json()["detail"]


def header_of(tensors: dict[str, Any]) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text


SAFETENSORS = header_of(
    {
        "model.embed_tokens.weight": {"dtype": "BF16", "shape": [1000, 64], "data_offsets": [0, 128_000]},
        "lm_head.weight": {"dtype": "F32", "shape": [64, 10], "data_offsets": [128_000, 130_560]},
    }
)


def test_the_header_of_a_safetensors_file_tells_parameters_and_bytes_by_dtype(client: httpx.Client) -> None:
    found = client.post("/v1/inspections", json=sent("model.safetensors", SAFETENSORS)).json()
    assert (found["num_parameters"], found["tensor_bytes"]) == (64_640, 130_560)
    assert [(total["dtype"], total["tensor_bytes"]) for total in found["tensors"]] == [
        ("bfloat16", 128_000),
        ("float32", 2_560),
    ]
    assert found["absent_files"] == ["model.safetensors"]
    whole = client.post("/v1/inspections", json=sent("model.safetensors", SAFETENSORS + bytes(130_560))).json()
    assert (whole["disk_bytes"], whole["absent_files"]) == (len(SAFETENSORS) + 130_560, [])


@pytest.mark.filterwarnings("ignore")
def test_metadata_of_torch_dcp_tells_what_its_folder_tells(client: httpx.Client, tmp_path: Path) -> None:
    save(tiny_llama().state_dict(), checkpoint_id=tmp_path, no_dist=True)
    content = (tmp_path / ".metadata").read_bytes()
    found, whole = client.post("/v1/inspections", json=sent(".metadata", content)).json(), contents_of(tmp_path)
    assert found["num_parameters"] == whole.num_parameters
    assert found["tensor_bytes"] == whole.tensor_bytes
    assert found["part_bytes"] == whole.part_bytes


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (Path("ran"), "it ran"))


INDEX = b'{"metadata": {"total_size": 16000}, "weight_map": {"a": "../../etc/a.safetensors"}}'


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (".metadata", pickle.dumps(Hostile()), "is refused as DCP metadata"),
        ("model.safetensors", b"\0" * 4, "ends within its header"),
        ("model.safetensors", SAFETENSORS[:40], "ends within its header"),
        ("model.safetensors", (2**62).to_bytes(8, "little"), "header"),
        ("model.safetensors.index.json", b"[]", "is not a safetensors index"),
        ("model.safetensors.index.json", INDEX, "which is not a file name in its folder"),
        ("../model.safetensors", SAFETENSORS, "give the file's own name"),
        ("model.pt", b"PK", "is neither an index"),
    ],
)
def test_what_cannot_be_inspected_is_refused_in_words_without_a_path(
    client: httpx.Client, name: str, content: bytes, says: str
) -> None:
    refused = client.post("/v1/inspections", json=sent(name, content))
    assert refused.status_code == 422
    assert says in refused.json()["detail"]
    assert tempfile.gettempdir() not in refused.text
    assert not Path("ran").exists()


def test_an_inspection_in_words_ends_with_the_fields_that_size_a_run_like_it(client: httpx.Client) -> None:
    shown = client.post("/v1/inspections", json=sent("model.safetensors", SAFETENSORS), headers=WORDS).json()
    assert shown["title"] == "model.safetensors"
    assert shown["tables"][0]["rows"][0][:3] == ["weights", "bfloat16", "1"]
    assert shown["remarks"] == ["To size a run like it: model.num_parameters 64640"]
    assert "The checkpoint has no optimizer state" in shown["warnings"][1]
