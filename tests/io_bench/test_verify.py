"""`ckpt-bench verify` finds what is missing, cut short or changed, and says what it cannot see."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import random
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_saver import save

from io_bench.checks import file_regions
from io_bench.checks.file_regions import Region
from io_bench.checks.structure import missing_elements
from io_bench.checks.verify import (
    Checksums,
    FileChecksums,
    Verification,
    checksums_of,
    files_of,
    read_checksums,
    verification_lines,
    verify_checkpoint,
)
from io_bench.commands.main import main
from sizing.checkpoint_files import contents_of
from sizing.checkpoint_files.dcp import DcpChunk
from sizing.units import bytes_text
from tests.sizing.checkpoint_files import laid_folders
from tests.testbed.terminal import typed

NUM_FLIPS = 1000


def found_in(path: Path, **given: Any) -> Verification:
    return verify_checkpoint(path, num_threads=2, progress=lambda _: None, **given)


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
    assert found.verdict == "whole"
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
    assert found_in(safetensors.parent).verdict == "whole", "a safetensors file says nothing of its data"
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
    assert found.verdict == "whole"
    assert found.unseen_bytes["rank0.pt"] > 2400
    assert found.unchecked_bytes["rank0.pt"] == found.total_bytes - found.checked_bytes > 2400


@pytest.mark.parametrize("missing", ["__0_0.distcp", ".metadata"])
def test_a_file_that_is_missing_is_found(dcp_folder: Path, missing: str) -> None:
    (dcp_folder / missing).unlink()
    (problem,) = problems(dcp_folder)
    assert ("is missing; .metadata places" in problem) or ("without a .metadata file" in problem)


@pytest.mark.parametrize(
    ("content", "verdict", "said"),
    [
        (bytes, "damaged", "has zeros where 3 of 3 items should begin"),
        (os.urandom, "not judged", "has 3 of 3 items in a form that torch DCP does not write"),
    ],
)
def test_a_data_file_of_dcp_without_its_items_is_not_whole(
    dcp_folder: Path, content: Callable[[int], bytes], verdict: str, said: str
) -> None:
    data = dcp_folder / "__0_0.distcp"
    data.write_bytes(content(data.stat().st_size))
    found = found_in(dcp_folder)
    assert found.verdict == verdict
    sentences = [each.problem for each in found.damage] + [each.reason for each in found.not_judged]
    assert len(sentences) == 1
    assert said in sentences[0]


def test_a_data_file_of_dcp_that_is_cut_short_is_one_problem(dcp_folder: Path) -> None:
    data = dcp_folder / "__0_0.distcp"
    data.write_bytes(data.read_bytes()[:10])
    (problem,) = problems(dcp_folder)
    assert problem.startswith("__0_0.distcp is cut short; it has 10 bytes, and 3 of 3 items end behind that, up to")


@pytest.mark.parametrize("lost", [["00002"], ["00001", "00002"]])
def test_a_shard_that_an_index_names_is_one_problem_where_it_is_missing(tmp_path: Path, lost: list[str]) -> None:
    shards = [f"model-{number}-of-00002.safetensors" for number in ("00001", "00002")]
    for name, shard in zip("ab", shards, strict=True):
        save_file({name: torch.zeros(4)}, tmp_path / shard)
    index = {"metadata": {"total_size": 32}, "weight_map": dict(zip("ab", shards, strict=True))}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert not problems(tmp_path)
    for number in lost:
        (tmp_path / f"model-{number}-of-00002.safetensors").unlink()
    assert problems(tmp_path) == [
        f"model-{number}-of-00002.safetensors is missing: model.safetensors.index.json names it" for number in lost
    ]


def test_a_file_with_many_changed_records_is_one_line(torch_file: Path) -> None:
    content = bytearray(torch_file.read_bytes())
    with zipfile.ZipFile(torch_file) as archive:
        records = [archive.read(record) for record in archive.infolist() if "/data/" in record.filename]
    for data in records:
        content[content.index(data)] ^= 1
    torch_file.write_bytes(content)
    found = found_in(torch_file.parent)
    assert len(found.damage) == len(records) > 1
    first, line, *_ = verification_lines(found)
    assert first.endswith(": DAMAGED, 1 file.")
    assert line.endswith(f"; and {len(records) - 1} more problem{'s' if len(records) > 2 else ''} in it")


def test_a_data_file_that_no_metadata_names_is_a_doubt(dcp_folder: Path) -> None:
    """As more ranks have left it in the same folder."""
    (dcp_folder / "__1_0.distcp").write_bytes((dcp_folder / "__0_0.distcp").read_bytes())
    found = found_in(dcp_folder)
    assert (found.verdict, [each.file for each in found.not_judged]) == ("not judged", ["__1_0.distcp"])
    contents = contents_of(dcp_folder)
    assert contents.disk_bytes == sum((dcp_folder / name).stat().st_size for name in (".metadata", "__0_0.distcp"))
    assert any("not counted: __1_0.distcp" in note for note in contents.notes)


def test_a_data_file_of_dcp_that_goes_on_behind_its_items_is_a_doubt(dcp_folder: Path) -> None:
    """As an item more has left it; padding is none."""
    data = dcp_folder / "__0_0.distcp"
    content = data.read_bytes()
    data.write_bytes(content + bytes(4096))
    assert found_in(dcp_folder).verdict == "whole"
    data.write_bytes(content + content[:700])
    found = found_in(dcp_folder)
    (doubt,) = found.not_judged
    assert (found.verdict, doubt.file) == ("not judged", "__0_0.distcp")
    assert doubt.reason == "goes on for 700 bytes behind its last item, as one of another save"


def dcp_of_ranks(folder: Path, *, num_steps: int) -> Path:
    """A save of torch DCP by two ranks, each with its rows of a tensor and the counter of an optimizer's steps."""
    for rank in range(2):
        count = torch.tensor(float(num_steps))
        state = {f"w{rank}": torch.full((4, 8), float(num_steps)), f"optim.state.w{rank}.step": count}
        with pytest.warns(UserWarning, match="in a single process"):
            save(state, checkpoint_id=folder / f"rank{rank}", no_dist=True)
    metadata = [FileSystemReader(folder / f"rank{rank}").read_metadata() for rank in range(2)]
    for rank in range(2):
        (folder / f"rank{rank}" / "__0_0.distcp").rename(folder / f"__{rank}_0.distcp")
        places = metadata[rank].storage_data.items()
        metadata[0].storage_data |= {key: replace(at, relative_path=f"__{rank}_0.distcp") for key, at in places}
        metadata[0].state_dict_metadata |= metadata[rank].state_dict_metadata
    (folder / ".metadata").write_bytes(pickle.dumps(metadata[0]))
    for rank in range(2):
        shutil.rmtree(folder / f"rank{rank}")
    return folder


def test_a_data_file_of_dcp_whose_optimizer_has_counted_other_steps_is_a_doubt(tmp_path: Path) -> None:
    """Its names and sizes are those of the file that it stands for."""
    older, newer = dcp_of_ranks(tmp_path / "older", num_steps=900), dcp_of_ranks(tmp_path / "newer", num_steps=1000)
    assert found_in(newer).verdict == "whole"
    shutil.copyfile(older / "__1_0.distcp", newer / "__1_0.distcp")
    found = found_in(newer)
    (doubt,) = found.not_judged
    assert (found.verdict, doubt.file) == ("not judged", "__1_0.distcp")
    assert doubt.reason == (
        "may be of another save: it has optimizer's step 900, and 1 file of the same save has 1,000; "
        "or its parameters had no gradient in some steps"
    )


def test_a_data_file_of_dcp_that_was_written_hours_before_the_others_is_named(tmp_path: Path) -> None:
    folder = dcp_of_ranks(tmp_path / "saved", num_steps=10)
    begin = time.time()
    os.utime(folder / "__0_0.distcp", (begin - 2400, begin - 2400))
    os.utime(folder / "__1_0.distcp", (begin - 4800, begin - 4800))
    found = found_in(folder)
    assert not found.seconds_apart, "a save that takes long, without a pause of an hour"
    os.utime(folder / "__1_0.distcp", (begin - 93_600, begin - 93_600))
    found = found_in(folder)
    assert found.verdict == "whole"
    assert found.seconds_apart == {"__1_0.distcp": pytest.approx(-93_600, abs=60)}
    said = (
        "__1_0.distcp was written 26.00 h before .metadata: of another save, unless a copy changed the times of files"
    )
    assert f"{said}." in list(verification_lines(found))
    assert said in contents_of(folder).notes


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
    (unjudged,) = found_in(tmp_path / "a.pt").not_judged
    assert "has a pickle that is not read" in unjudged.reason
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
    assert "of headers and padding have none. After a save, --write-checksums FILE" in done.stdout
    assert read_checksums(kept).files.keys() == {"rank0.pt"}

    done = typed(main, "ckpt-bench", "verify", str(folder), "--checksums", str(kept))
    assert done.stdout.splitlines()[-1] == "A checksum vouches for every byte."

    next(flips(torch_file, record_bytes(torch_file), 1))
    done = typed(main, "ckpt-bench", "verify", str(folder), "--checksums", str(kept), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["damage"][0]["file"] == "rank0.pt"
    done = typed(main, "ckpt-bench", "verify", str(folder), "--write-checksums", str(tmp_path / "other.json"))
    assert done.returncode == 1
    assert "DAMAGED, 1 file." in done.stdout
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
    monkeypatch.setattr(file_regions, "_STRETCH_BYTES", 3000)
    monkeypatch.setattr(file_regions, "_BLOCK_BYTES", 700)
    content = os.urandom(10_000)
    path = tmp_path / "records"
    path.write_bytes(content)
    ends = [(0, 10), (10, 20), (20, 8020), (8020, 10_000)]
    regions = [
        Region(path, begin, end - begin, f"part {begin}", "crc32", f"{zlib.crc32(content[begin:end]):08x}")
        for begin, end in ends
    ]
    assert [
        (s[0].offset, s[-1].end) for s in file_regions.stretches(p for r in regions for p in file_regions.pieces(r))
    ] == [
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
    return [found.sentence for found in file_regions.damage_in(regions, num_threads=3, progress=lambda _: None)]


KINDS: dict[str, Callable[[Path], Path]] = {
    "Trainer": lambda folder: laid_folders.trainer(folder / "checkpoint-2", num_ranks=2),
    "accelerate": lambda folder: laid_folders.accelerate(folder / "checkpoint_2", num_ranks=2),
    "ZeRO-1": lambda folder: laid_folders.deepspeed(folder / "global_step2", stage=1),
    "ZeRO-3": lambda folder: laid_folders.deepspeed(folder / "global_step2", stage=3),
    "Trainer with ZeRO-1": lambda folder: laid_folders.trainer_with_deepspeed(folder / "checkpoint-2", stage=1),
    "Trainer with ZeRO-3": lambda folder: laid_folders.trainer_with_deepspeed(folder / "checkpoint-2", stage=3),
    "Trainer alone with ZeRO-2": lambda folder: laid_folders.trainer_with_deepspeed(
        folder / "checkpoint-2", stage=2, num_ranks=1
    ),
    "Lightning": lambda folder: laid_folders.lightning(folder / "step=2.ckpt", step=2).parent,
    "script": lambda folder: laid_folders.script(folder / "ckpt_2.pt").parent,
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_trainers_save_is_whole(tmp_path: Path, kind: str) -> None:
    found = found_in(KINDS[kind](tmp_path / "run"))
    assert (found.verdict, found.damage, found.not_judged) == ("whole", (), ())


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("Trainer", "optimizer.pt"),
        ("Trainer", "model.safetensors"),
        ("Trainer", "scheduler.pt"),
        ("Trainer", "trainer_state.json"),
        ("accelerate", "model.safetensors"),
        ("accelerate", "optimizer.bin"),
        *(
            (f"ZeRO-{stage}", f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
            for rank in (0, 1)
            for stage in (1, 3)
        ),
        *(
            ("Trainer with ZeRO-1", name)
            for name in (
                "model.safetensors",
                "latest",
                "trainer_state.json",
                "global_step2/mp_rank_00_model_states.pt",
                "global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
            )
        ),
        ("Trainer with ZeRO-3", "latest"),
        ("Trainer with ZeRO-3", "global_step2/zero_pp_rank_0_mp_rank_00_model_states.pt"),
        ("Trainer alone with ZeRO-2", "model.safetensors"),
        ("ZeRO-1", "mp_rank_00_model_states.pt"),
        ("ZeRO-3", "zero_pp_rank_1_mp_rank_00_model_states.pt"),
    ],
)
def test_a_file_that_a_trainer_must_have_saved_is_missed(tmp_path: Path, kind: str, missing: str) -> None:
    folder = KINDS[kind](tmp_path)
    (folder / missing).unlink()
    found = found_in(folder)
    assert found.verdict == "damaged"
    assert [damage.file for damage in found.damage] == [missing]


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("Trainer", "rng_state_0.pth"),
        ("Trainer", "rng_state_1.pth"),
        ("accelerate", "random_states_0.pkl"),
        ("Trainer with ZeRO-1", "rng_state_1.pth"),
        ("Trainer alone with ZeRO-2", "rng_state.pth"),
    ],
)
def test_without_a_random_state_a_run_goes_on(tmp_path: Path, kind: str, missing: str) -> None:
    folder = KINDS[kind](tmp_path)
    (folder / missing).unlink()
    found = found_in(folder)
    assert (found.verdict, found.damage, found.not_judged) == ("whole", (), ())
    assert [warning.file for warning in found.warnings] == [missing]
    (line,) = [line for line in verification_lines(found) if line.startswith("warning: ")]
    assert line.startswith(f"warning: {missing} is missing: ")
    assert line.endswith("; a run goes on without it, with other random numbers")
    contents = contents_of(folder)
    assert (contents.is_whole, contents.missing_files) == (True, ())
    assert [note for note in contents.notes if note.startswith(f"{missing} is missing") and "goes on" in note]


def test_what_other_saves_of_the_run_have_and_this_one_has_not_is_a_doubt(tmp_path: Path) -> None:
    folders = [laid_folders.accelerate(tmp_path / f"checkpoint_{save}", num_ranks=2) for save in range(3)]
    (folders[1] / "scheduler.bin").unlink()
    (folders[1] / "random_states_1.pkl").unlink()
    found = found_in(folders[1])
    (doubt,), (warning,) = found.not_judged, found.warnings
    assert (found.verdict, doubt.file, warning.file) == ("not judged", "scheduler.bin", "random_states_1.pkl")
    assert "the saves beside it have one (checkpoint_0 and 1 more)" in doubt.reason
    assert found_in(folders[0]).verdict == "whole"


def test_how_many_ranks_saved_is_left_open_where_no_file_counts_them(tmp_path: Path) -> None:
    folder = laid_folders.accelerate(tmp_path / "checkpoint_2", num_ranks=3)
    (folder / "random_states_2.pkl").unlink()
    found = found_in(folder)
    assert (found.verdict, found.uncounted_ranks) == ("whole", {"random_states_N.pkl": 2})
    lines = list(verification_lines(found))
    assert lines[1] == (
        "There is random_states_N.pkl of 2 ranks; no file says how many ranks saved, so more may be missing."
    )
    assert not found_in(laid_folders.deepspeed(tmp_path / "global_step2", stage=2)).uncounted_ranks
    assert not found_in(laid_folders.trainer(tmp_path / "checkpoint-2")).uncounted_ranks


def test_an_unfinished_save_is_seen_in_the_folder_of_its_run(tmp_path: Path) -> None:
    folders = [laid_folders.trainer(tmp_path / f"checkpoint-{step}") for step in (2, 4, 6)]
    assert found_in(tmp_path).verdict == "whole"
    for path in folders[-1].iterdir():
        if path.name != "model.safetensors":
            path.unlink()
    found = found_in(tmp_path)
    assert found.verdict == "not judged"
    assert "checkpoint-6/optimizer.pt" in {doubt.file for doubt in found.not_judged}


def test_the_newest_save_that_deepspeed_notes_must_be_there(tmp_path: Path) -> None:
    laid_folders.deepspeed(tmp_path / "global_step2", stage=1)
    (tmp_path / "latest").write_text("global_step2")
    assert found_in(tmp_path).verdict == "whole"
    (tmp_path / "latest").write_text("global_step4")
    assert problems(tmp_path) == ["latest names global_step4 as the newest save, which is not beside it"]


class Unknown:
    """A class of the user's own, which the pickle of a checkpoint names."""


def legacy(path: Path) -> None:
    torch.save(tensors(), path, _use_new_zipfile_serialization=False)
    path.write_bytes(path.read_bytes()[:-100])


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 * 1024**2)


@pytest.mark.parametrize(
    ("name", "write", "verdict", "said"),
    [
        ("big.pt", sparse, "damaged", "begins with 4,096 zeros"),
        (
            "a.pt",
            lambda path: path.write_bytes(hashlib.shake_128(b"x").digest(5000)),
            "not judged",
            "is no torch.save file",
        ),
        ("optimizer.bin", lambda path: path.write_bytes(b""), "damaged", "is empty"),
        ("model.gguf", lambda path: path.write_bytes(b"GGUF\3\0\0\0" + bytes(100)), "not judged", "of no kind that is"),
        ("old.pt", legacy, "not judged", "of an old format of torch.save"),
        ("own.pt", lambda path: torch.save({"w": torch.ones(3), "a": Unknown()}, path), "not judged", "has a pickle"),
        ("config.json", lambda path: path.write_text('{"a": '), "damaged", "is no JSON"),
        ("gone.pt", lambda path: path.symlink_to("nowhere"), "damaged", "is a link to nowhere, which is not there"),
    ],
)
@pytest.mark.parametrize("is_alone", [True, False])
def test_what_cannot_be_judged_is_not_whole(
    tmp_path: Path, name: str, write: Callable[[Path], object], verdict: str, said: str, is_alone: bool
) -> None:
    """Alone, and beside a file that is whole."""
    write(tmp_path / name)
    if not is_alone:
        torch.save(tensors(), tmp_path / "whole.pt")
    found = found_in(tmp_path)
    assert found.verdict == verdict
    said_of = {one.file: one.problem for one in found.damage} | {one.file: one.reason for one in found.not_judged}
    assert said in said_of[name]
    assert said_of.keys() <= {name, "."}
    done = typed(main, "ckpt-bench", "verify", str(tmp_path), "--json")
    assert done.returncode == {"damaged": 1, "not judged": 3}[verdict]
    assert json.loads(done.stdout)["verdict"] == verdict


@pytest.mark.parametrize("name", ["optimizer.pt", "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"])
def test_a_file_of_zeros_in_the_place_of_state_is_damage(tmp_path: Path, name: str) -> None:
    is_trainer = name == "optimizer.pt"
    folder = KINDS["Trainer" if is_trainer else "ZeRO-1"](tmp_path)
    (folder / name).write_bytes(bytes((folder / name).stat().st_size))
    found = found_in(folder)
    assert [damage.file for damage in found.damage] == [name]


def test_texts_are_no_checkpoint(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text("words " * number)
    found = found_in(tmp_path)
    assert (found.verdict, found.not_judged[0].reason) == (
        "not judged",
        "holds no file of a checkpoint that is known",
    )
    done = typed(main, "ckpt-bench", "verify", str(tmp_path))
    assert done.returncode == 3
    assert done.stdout.splitlines()[:2] == [
        f"{tmp_path}: NOT JUDGED, for 1 reason; nothing is found wrong.",
        "not judged: the folder holds no file of a checkpoint that is known",
    ]
    assert done.stdout.splitlines()[2].startswith("Read 20 files, ")
    known = checksums_of(*files_of(tmp_path), num_threads=1, progress=lambda _: None)
    assert found_in(tmp_path, checksums=known).verdict == "whole", "checksums of the save vouch for any file"


def test_the_verdict_and_the_last_line_name_the_same_bytes_without_a_checksum(tmp_path: Path) -> None:
    folder = KINDS["Trainer"](tmp_path / "run")
    found = found_in(folder)
    done = typed(main, "ckpt-bench", "verify", str(folder))
    first, last = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    content = sum(found.unseen_bytes.values())
    frame = sum(found.unchecked_bytes.values()) - content
    assert found.checked_bytes + content + frame == found.total_bytes
    assert f"no checksum vouches for {bytes_text(content)} of content" in first
    assert last.startswith(
        f"Checksums vouch for {bytes_text(found.checked_bytes)}; {bytes_text(content)} of content and "
        f"{bytes_text(frame)} of headers and padding have none."
    )


def without(path: Path, *keys: str) -> None:
    """Save a torch.save file again without what some of its keys say, at any depth of dicts."""
    content = torch.load(path, weights_only=False)
    for part in (content, content.get("optimizer_state_dict", {})):
        for key in keys:
            part.pop(key, None)
    torch.save(content, path)


@pytest.mark.parametrize("stage", [1, 3])
def test_the_last_shard_of_deepspeed_is_missed_by_what_any_other_file_says(tmp_path: Path, stage: int) -> None:
    folder = laid_folders.deepspeed(tmp_path / "global_step2", stage=stage, num_ranks=3)
    for path in folder.glob("*rank_2_mp*"):
        path.unlink()
    for path in folder.glob("*model_states.pt"):
        without(path, "dp_world_size", "mp_world_size")
    missing = {"bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt"} | (
        {"zero_pp_rank_2_mp_rank_00_model_states.pt"} if stage == 3 else set()
    )
    found = found_in(folder)
    assert found.verdict == "damaged"
    assert {damage.file for damage in found.damage} == missing
    assert set(contents_of(folder).missing_files) == missing


def test_shards_of_which_no_file_says_how_many_there_were_are_not_judged(tmp_path: Path) -> None:
    folder = laid_folders.deepspeed(tmp_path / "global_step2", stage=1, num_ranks=3)
    for path in folder.iterdir():
        without(path, "dp_world_size", "mp_world_size", "partition_count")
    for lost in (None, "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt"):
        if lost:
            (folder / lost).unlink()
        found = found_in(folder)
        (doubt,) = found.not_judged
        assert (found.verdict, doubt.file) == ("not judged", ".")
        assert doubt.reason == f"holds shards of {2 if lost else 3} data ranks, and no file says how many there were"
        assert f"Folder . {doubt.reason}: the last may be missing" in contents_of(folder).notes


@pytest.mark.parametrize("pipeline", [1, 2])
def test_the_last_rank_of_megatron_is_missed_by_the_arguments_that_others_keep(tmp_path: Path, pipeline: int) -> None:
    folder = laid_folders.megatron(tmp_path / "iter_0000002", tensor=2, pipeline=pipeline)
    assert found_in(folder).verdict == "whole"
    lost = folder / ("mp_rank_01_001" if pipeline == 2 else "mp_rank_01") / "model_optim_rng.pt"
    lost.unlink()
    if pipeline == 2:
        (folder / "mp_rank_00_001" / "model_optim_rng.pt").unlink()
    found = found_in(folder)
    assert found.verdict == "damaged"
    assert str(lost.relative_to(folder)) in {damage.file for damage in found.damage}
    assert str(lost.relative_to(folder)) in contents_of(folder).missing_files


def test_what_no_checksum_vouches_for_is_said_first(safetensors: Path) -> None:
    done = typed(main, "ckpt-bench", "verify", str(safetensors.parent))
    assert done.returncode == 0
    size = safetensors.stat().st_size
    assert done.stdout.splitlines()[0].startswith(
        f"{safetensors.parent}: a change in 100 % of it cannot be seen, as no checksum vouches for {size / 1000:.3f} kB"
    )


def test_a_file_that_may_not_be_read_is_named(torch_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run as root, who may read any file: the system's answer is put in its place."""
    real = Path.open

    def refused(path: Path, *given: Any, **named: Any) -> Any:
        if path == torch_file:
            raise PermissionError(13, "Permission denied")
        return real(path, *given, **named)

    monkeypatch.setattr(Path, "open", refused)
    found = found_in(torch_file.parent)
    assert (found.verdict, found.not_judged[0].reason) == ("not judged", "cannot be read (Permission denied)")


def of_step(path: Path, step: int) -> None:
    """Save the file of a rank again as one of another step."""
    content = torch.load(path, weights_only=False)
    if "optimizer_state_dict" in content:
        content["optimizer_state_dict"]["base_optimizer_state"]["state"][0]["step"] = torch.tensor(float(step))
    else:
        content[{".pkl": "step"}.get(path.suffix, "iteration" if "iteration" in content else "global_steps")] = step
    torch.save(content, path)


STRAY_RANKS: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "optimizer's step": (
        lambda folder: laid_folders.deepspeed(folder, stage=1, num_ranks=3),
        "*_optim_states.pt",
        "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ),
    "global_steps": (
        lambda folder: laid_folders.deepspeed(folder, stage=3, num_ranks=3),
        "*_model_states.pt",
        "zero_pp_rank_2_mp_rank_00_model_states.pt",
    ),
    "iteration": (
        lambda folder: laid_folders.megatron(folder, tensor=3, pipeline=1),
        "model_optim_rng.pt",
        "mp_rank_01/model_optim_rng.pt",
    ),
    "step": (lambda folder: laid_folders.accelerate(folder, num_ranks=3), "random_states_*.pkl", "random_states_2.pkl"),
}


@pytest.mark.parametrize("key", STRAY_RANKS)
def test_the_file_of_a_rank_of_another_step_is_damage(tmp_path: Path, key: str) -> None:
    lay, of_ranks, stray = STRAY_RANKS[key]
    folder = lay(tmp_path / "saved")
    for path in folder.rglob(of_ranks):
        of_step(path, 1000)
    assert found_in(folder).verdict == "whole"
    of_step(folder / stray, 900)
    (damage,) = found_in(folder).damage
    assert (damage.file, damage.problem) == (
        stray,
        f"is of another save: it has {key} 900, and 2 files of the same save have 1,000",
    )
