"""`ckpt-bench verify` finds what is missing, cut short or changed, and says what it cannot see."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint.state_dict_saver import save

from io_bench.cli.main import main
from io_bench.verification import reading
from io_bench.verification.checksums import Checksums, FileChecksums, checksums_of, read_checksums
from io_bench.verification.coverage import missing_elements
from io_bench.verification.regions import Region
from io_bench.verification.verify import Verification, files_of, verified
from sizing.checkpoint_files.dcp_metadata import DcpChunk
from tests.testbed.terminal import typed

NUM_FLIPS = 1000


def found_in(path: Path, **given: Any) -> Verification:
    return verified(path, num_threads=2, progress=lambda _: None, **given)


def problems(path: Path, **given: Any) -> list[str]:
    return [f"{damage.file} {damage.problem}" for damage in found_in(path, **given).damage]


def tensors() -> dict[str, torch.Tensor]:
    return {"w": torch.arange(600, dtype=torch.float32).reshape(20, 30), "b": torch.ones(7, dtype=torch.bfloat16)}


@pytest.fixture
def torch_file(tmp_path: Path) -> Path:
    path = tmp_path / "saved" / "rank0.pt"
    path.parent.mkdir()
    torch.save(tensors(), path)
    return path


@pytest.fixture
def dcp_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "dcp"
    with pytest.warns(UserWarning, match="in a single process"):
        save({"model": tensors(), "step": 3}, checkpoint_id=folder, no_dist=True)
    return folder


@pytest.fixture
def safetensors(tmp_path: Path) -> Path:
    path = tmp_path / "hub" / "model.safetensors"
    path.parent.mkdir()
    save_file(tensors(), path)
    return path


@pytest.fixture(params=["torch_file", "dcp_folder", "safetensors"])
def folder(request: pytest.FixtureRequest) -> Path:
    made: Path = request.getfixturevalue(request.param)
    return made if made.is_dir() else made.parent


def record_bytes(path: Path) -> list[int]:
    """Every place of a torch.save file that a record's checksum vouches for."""
    content = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        held = [archive.read(record) for record in archive.infolist()]
    begins = [content.index(data) for data in held]
    return [place for begin, data in zip(begins, held, strict=True) for place in range(begin, begin + len(data))]


def flips(path: Path, places: list[int], number: int) -> Iterator[str]:
    """Change one bit of the file, name it, and put it back."""
    draw, content = random.Random(11), path.read_bytes()  # noqa: S311 - no secret
    for _ in range(number):
        place, bit = draw.choice(places), draw.randrange(8)
        changed = bytearray(content)
        changed[place] ^= 1 << bit
        path.write_bytes(changed)
        yield f"bit {bit} of byte {place}"
    path.write_bytes(content)


def cuts(path: Path, number: int) -> Iterator[str]:
    """Cut the file short, say where, and put it back."""
    draw, content = random.Random(12), path.read_bytes()  # noqa: S311 - no secret
    for _ in range(number):
        end = draw.randrange(len(content))
        path.write_bytes(content[:end])
        yield f"cut at byte {end}"
    path.write_bytes(content)


def test_what_was_saved_is_sound(folder: Path) -> None:
    found = found_in(folder)
    assert found.is_sound
    assert found.checked_bytes + sum(found.unchecked_bytes.values()) == found.total_bytes
    assert found.num_files == len(list(folder.iterdir()))


def test_every_changed_bit_of_a_record_is_found_by_its_own_checksum(torch_file: Path) -> None:
    unseen = [flip for flip in flips(torch_file, record_bytes(torch_file), NUM_FLIPS // 4) if not problems(torch_file)]
    assert not unseen


def test_a_changed_tensor_is_named(torch_file: Path) -> None:
    place = torch_file.read_bytes().index(tensors()["w"].numpy().tobytes())
    next(flips(torch_file, [place + 8], 1))
    (problem,) = problems(torch_file)
    assert problem.startswith("rank0.pt has changed since it was saved: w, record rank0/data/0 (bytes ")
    assert "has CRC-32" in problem


def test_every_file_that_is_cut_short_is_found(torch_file: Path, dcp_folder: Path, safetensors: Path) -> None:
    for path in (torch_file, dcp_folder / "__0_0.distcp", safetensors):
        checked = dcp_folder if path.parent == dcp_folder else path
        assert not [cut for cut in cuts(path, 50) if not problems(checked)], path


@pytest.mark.long
def test_a_thousand_changes_are_found_by_checksums_of_all_files(folder: Path) -> None:
    known = checksums_of(*files_of(folder), num_threads=2, progress=lambda _: None)
    for path in folder.iterdir():
        places = list(range(path.stat().st_size))
        number = NUM_FLIPS // len(list(folder.iterdir()))
        assert not [flip for flip in flips(path, places, number) if not problems(folder, checksums=known)], path
        assert not [cut for cut in cuts(path, 100) if not problems(folder, checksums=known)], path


def test_checksums_find_what_files_without_checksums_hide(safetensors: Path) -> None:
    known = checksums_of(*files_of(safetensors.parent), num_threads=2, progress=lambda _: None)
    last = safetensors.stat().st_size - 1
    next(flips(safetensors, [last], 1))
    assert found_in(safetensors.parent).is_sound, "a safetensors file says nothing of its data"
    (problem,) = problems(safetensors.parent, checksums=known)
    assert problem.startswith("model.safetensors has changed since it was saved: block 0 (bytes 0 to ")
    (safetensors.parent / "new.txt").write_text("later")
    safetensors.unlink()
    assert problems(safetensors.parent, checksums=known) == ["model.safetensors is missing"]


def test_checksums_of_before_are_still_compared(safetensors: Path) -> None:
    content = safetensors.read_bytes()
    known = Checksums(
        algorithm="sha256",
        files={safetensors.name: FileChecksums(num_bytes=len(content), blocks=(hashlib.sha256(content).hexdigest(),))},
    )
    assert not problems(safetensors.parent, checksums=known)
    next(flips(safetensors, [len(content) - 1], 1))
    (problem,) = problems(safetensors.parent, checksums=known)
    assert "has SHA-256" in problem


def test_records_without_a_checksum_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "rank0.pt"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(tensors(), path)
    finally:
        torch.serialization.set_crc32_options(True)
    found = found_in(path)
    assert found.is_sound
    assert found.unchecked_bytes["rank0.pt"] == found.total_bytes - found.checked_bytes > 2400


@pytest.mark.parametrize("missing", ["__0_0.distcp", ".metadata"])
def test_a_file_that_is_missing_is_found(dcp_folder: Path, missing: str) -> None:
    (dcp_folder / missing).unlink()
    (problem,) = problems(dcp_folder)
    assert ("is missing; .metadata places" in problem) or ("without a .metadata file" in problem)


def test_an_item_of_dcp_that_has_changed_is_named(dcp_folder: Path) -> None:
    data = dcp_folder / "__0_0.distcp"
    next(flips(data, [data.read_bytes().index(tensors()["w"].numpy().tobytes()) + 8], 1))
    (problem,) = problems(dcp_folder)
    assert problem.startswith("__0_0.distcp has changed since it was saved: model.w, record ")


def test_chunks_that_do_not_make_up_their_tensor_are_counted() -> None:
    rows = tuple(DcpChunk((2 * number, 0), (2, 3)) for number in range(4))
    assert missing_elements((8, 3), rows) == 0
    assert missing_elements((8, 3), rows[1:]) == 6
    assert missing_elements((8, 3), (*rows[1:], rows[1])) == 6, "the same chunk twice"
    assert missing_elements((9, 3), (*rows, DcpChunk((7, 0), (1, 3)))) == 3, "two that overlap"
    assert missing_elements((), (DcpChunk((), ()),)) == 0
    assert missing_elements((0, 3), ()) == 0
    assert missing_elements((2,), ()) == 2


def test_no_pickle_runs(tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "ran"),)

    torch.save({"w": torch.ones(3), "evil": Touch()}, tmp_path / "a.pt")
    assert found_in(tmp_path / "a.pt").is_sound, "what it names is not its files' concern"
    assert not (tmp_path / "ran").exists()


def test_a_storage_that_is_not_there_is_found_without_any_checksum(torch_file: Path) -> None:
    shorter = io.BytesIO()
    with zipfile.ZipFile(torch_file) as archive, zipfile.ZipFile(shorter, "w") as copy:
        for record in archive.infolist():
            data = archive.read(record)
            copy.writestr(record.filename, data[:-4] if record.filename.endswith("data/0") else data)
    torch_file.write_bytes(shorter.getvalue())
    assert problems(torch_file) == ["rank0.pt has 2,396 of 2,400 bytes of w"]


def test_at_the_terminal(torch_file: Path, tmp_path: Path) -> None:
    folder, kept = torch_file.parent, tmp_path / "checksums.json"
    done = typed(main, "ckpt-bench", "verify", str(folder), "--write-checksums", str(kept))
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"{folder}: whole and readable.")
    assert "No checksum vouches for" in done.stdout
    assert read_checksums(kept).files.keys() == {"rank0.pt"}

    done = typed(main, "ckpt-bench", "verify", str(folder), "--checksums", str(kept))
    assert done.stdout.splitlines()[-1] == "A checksum vouches for every byte."

    next(flips(torch_file, record_bytes(torch_file), 1))
    done = typed(main, "ckpt-bench", "verify", str(folder), "--checksums", str(kept), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["damage"][0]["file"] == "rank0.pt"
    done = typed(main, "ckpt-bench", "verify", str(folder), "--write-checksums", str(tmp_path / "other.json"))
    assert done.returncode == 1
    assert "DAMAGED, 1 problem found" in done.stdout
    assert not (tmp_path / "other.json").exists(), "nobody wants the checksums of a damaged file"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "nowhere cannot be read (no such file or folder): check the name."),
        (["."], "holds no file: give the folder of a checkpoint."),
        ([".", "--threads", "0"], "--threads must be from 1 to 256, got 0"),
        ([".", "--checksums", "none.json"], "none.json cannot be read (No such file or directory)"),
    ],
)
def test_what_cannot_be_verified_is_said(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    done = typed(main, "ckpt-bench", "verify", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr


def test_a_large_record_is_checked_in_pieces_and_small_ones_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_STRETCH_BYTES", 3000)
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 700)
    content = os.urandom(10_000)
    path = tmp_path / "records"
    path.write_bytes(content)
    ends = [(0, 10), (10, 20), (20, 8020), (8020, 10_000)]
    regions = [
        Region(path, begin, end - begin, f"part {begin}", "crc32", f"{zlib.crc32(content[begin:end]):08x}")
        for begin, end in ends
    ]
    assert [(s[0].offset, s[-1].end) for s in reading.stretches(p for r in regions for p in reading.pieces(r))] == [
        (0, 20),
        (20, 3020),
        (3020, 6020),
        (6020, 8020),
        (8020, 10_000),
    ]
    assert damage_of(regions) == []
    for place, (begin, end) in [(15, ends[1]), (20, ends[2]), (6019, ends[2]), (8019, ends[2]), (9999, ends[3])]:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        (damage,) = damage_of(regions)
        assert f"part {begin} (bytes {begin:,} to {end:,}) has CRC-32" in damage
    path.write_bytes(content[:7000])
    assert damage_of(regions) == [
        "is cut short in part 20 (bytes 6,020 to 8,020): it ends at byte 7,000",
        "is cut short in part 8020 (bytes 8,020 to 10,000): it ends at byte 7,000",
    ]


def damage_of(regions: list[Region]) -> list[str]:
    return [found.sentence for found in reading.damage_in(regions, num_threads=3, progress=lambda _: None)]
