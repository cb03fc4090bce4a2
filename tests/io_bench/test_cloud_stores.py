"""Runs against emulators of Google Cloud Storage and Azure Blob Storage, which keep what they are sent."""

from __future__ import annotations

import contextlib
import gc
import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from io_bench.commands.main import main
from io_bench.target.object_store.clouds import CloudStore
from io_bench.target.object_store.url_target import UrlTarget
from io_bench.target.target import PartTransfer
from sizing.errors import InvalidInput
from tests.testbed.cloud_emulators import Emulator, azurite, fake_gcs_server
from tests.testbed.processes import until

if TYPE_CHECKING:
    from tests.conftest import Testbed

# gcsfs and adlfs hand a part to aiohttp as bytes, which says so of each above 1 MiB.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")

BUCKET, NEIGHBOUR = "checkpoints", "checkpoints/team/not-ours.bin"
PARTS = {"gs": ("POST", "upload_id="), "az": ("PUT", "comp=block&")}
"""Words in the log of an emulator of a request that carries a part."""
ENDS = {"gs": ("POST", "o?name="), "az": ("PUT", "comp=blocklist")}
"""Words of the one request of an object in parts that begins it (Google) or completes it (Azure)."""


@pytest.fixture(
    scope="module", params=[fake_gcs_server, pytest.param(azurite, marks=pytest.mark.long(minutes=1))], ids=["gs", "az"]
)
def running_emulator(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, testbed_of_module: Testbed
) -> Emulator:
    emulator: Emulator = testbed_of_module(request.param(tmp_path_factory.mktemp("emulator")))
    return emulator


@pytest.fixture
def emulator(running_emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Emulator:
    for name, value in running_emulator.environment.items():
        monkeypatch.setenv(name, value)
    files = files_of(running_emulator)
    if files.exists(BUCKET):
        files.rm(files.find(BUCKET))
    else:
        files.mkdir(BUCKET)
    files.pipe_file(NEIGHBOUR, b"precious")
    return running_emulator


def files_of(emulator: Emulator) -> Any:
    """Return the store as its owner sees it."""
    return fsspec.filesystem(emulator.scheme, use_listings_cache=False, skip_instance_cache=True)


def store_of(emulator: Emulator) -> CloudStore:
    store = UrlTarget.checked(f"{emulator.scheme}://{BUCKET}/team", is_first=True).store
    assert isinstance(store, CloudStore)
    return store


def test_a_run_writes_and_restores_what_it_wrote_and_leaves_what_is_not_its_own(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = ["run", "--target", f"{emulator.scheme}://{BUCKET}/team", "--engine", "dcp"]
    with pytest.raises(SystemExit) as end:
        main([*run, "--bytes-per-rank", "20MiB", "--repetitions", "1", "--output", "r.json"])
    assert end.value.code in (0, None)
    for measured in json.loads((tmp_path / "r.json").read_text())["measurements"]:
        assert (measured["cache_policy"], measured["verified"]) == ("object-store", True)
        assert 20 << 20 <= measured["total_bytes"] < 22 << 20
    assert [path.lstrip("/") for path in files_of(emulator).find(BUCKET)] == [NEIGHBOUR]
    assert files_of(emulator).cat_file(NEIGHBOUR) == b"precious"


def test_an_object_arrives_byte_for_byte_in_as_many_parts_as_it_fills(emulator: Emulator) -> None:
    store, data = store_of(emulator), random.Random(7).randbytes((20 << 20) + 3)  # noqa: S311 - content, not a secret
    before = [emulator.count_requests(*words[emulator.scheme]) for words in (PARTS, ENDS)]
    with store.open_to_write(f"{BUCKET}/team/large.bin", PartTransfer(8 << 20, 1)) as stream:
        for start in range(0, len(data), 1 << 20):
            stream.write(data[start : start + (1 << 20)])

    def added() -> list[int]:
        counted = [emulator.count_requests(*words[emulator.scheme]) for words in (PARTS, ENDS)]
        return [now - earlier for now, earlier in zip(counted, before, strict=True)]

    until(lambda: added() == [3, 1], otherwise=lambda: f"{added()} requests")  # a log is written behind the answers
    assert files_of(emulator).cat_file(f"{BUCKET}/team/large.bin") == data
    assert store.get(f"{BUCKET}/team/large.bin", 5, len(data) - 9) == data[5:-9]
    assert store.num_bytes(f"{BUCKET}/team/large.bin") == len(data)


def test_what_was_begun_and_not_closed_is_no_object_after_its_run_is_removed(emulator: Emulator) -> None:
    """fsspec alone completes it when its file is collected: it then stands there after the run."""
    target = UrlTarget.checked(f"{emulator.scheme}://{BUCKET}/team", is_first=True)
    files = target.make_run("begun")
    files.create("begun.bin").write(bytes((8 << 20) + 1))
    with contextlib.suppress(ZeroDivisionError), files.create("failed.bin") as stream:
        stream.write(bytes(1 << 20))
        raise ZeroDivisionError
    files.remove_created()
    gc.collect()
    assert store_of(emulator).paths(f"{BUCKET}/team") == [NEIGHBOUR]


def test_listings_show_what_another_client_has_just_put_with_its_size_and_time(emulator: Emulator) -> None:
    store = store_of(emulator)
    assert store.paths(f"{BUCKET}/team") == [NEIGHBOUR]
    files_of(emulator).pipe_file(f"{BUCKET}/team/step-1/a.bin", b"12345")
    assert store.folders(f"{BUCKET}/team") == ["step-1"]
    [new] = store.objects(f"{BUCKET}/team/step-1")
    assert (new.path, new.num_bytes) == (f"{BUCKET}/team/step-1/a.bin", 5)
    assert new.changed_at == pytest.approx(store.changed_at(new.path), abs=1)


def test_what_is_missing_is_told_with_the_address_that_was_asked(emulator: Emulator) -> None:
    store = store_of(emulator)
    with pytest.raises(FileNotFoundError):
        store.num_bytes(f"{BUCKET}/team/nothing")
    store.remove(f"{BUCKET}/team/nothing")
    with pytest.raises(InvalidInput, match=r"nobucket does not exist.*requests go to http://127\.0\.0\.1:"):
        UrlTarget.checked(f"{emulator.scheme}://nobucket/x", is_first=True)
    with pytest.raises(InvalidInput, match=r"without credentials.*set (GOOGLE_APPLICATION|AZURE_STORAGE)"):
        UrlTarget.checked(f"{emulator.scheme}://somebody@nobucket/x", is_first=True)
