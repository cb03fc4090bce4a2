from __future__ import annotations

import mmap
import os
import subprocess
from pathlib import Path

import pytest

from io_bench.target import page_cache

NUM_PAGES = 300
SIZE = NUM_PAGES * mmap.PAGESIZE - 100


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return durable(tmp_path / "file")


def durable(path: Path) -> Path:
    with path.open("wb") as handle:
        handle.write(os.urandom(SIZE))
        handle.flush()
        os.fsync(handle.fileno())
    return path


def test_every_page_that_was_written_is_seen_and_none_after_the_drop(file: Path) -> None:
    with file.open("rb") as handle:
        assert page_cache.num_resident_pages(handle.fileno()) == NUM_PAGES
        assert page_cache.drop(handle.fileno()) == 0
        assert page_cache.num_resident_pages(handle.fileno()) == 0


def test_pages_that_are_read_again_are_seen_again(file: Path) -> None:
    with file.open("rb") as handle:
        page_cache.drop(handle.fileno())
        handle.read()
        assert page_cache.num_resident_pages(handle.fileno()) == NUM_PAGES


def test_mincore_alone_sees_the_same(file: Path) -> None:
    with file.open("rb") as handle:
        assert page_cache._mincore(handle.fileno()) == NUM_PAGES
        page_cache.drop(handle.fileno())
        assert page_cache._mincore(handle.fileno()) == 0


def test_a_page_that_another_process_maps_stays_and_is_reported(file: Path) -> None:
    with file.open("rb") as handle, mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        assert mapping[0:1]
        assert page_cache.drop(handle.fileno()) > 0


def test_an_empty_file_has_no_pages(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    with path.open("rb") as handle:
        assert page_cache.drop(handle.fileno()) == 0


def test_pages_are_seen_through_an_overlay_where_cachestat_sees_none(small_filesystem: Path) -> None:
    layers = [small_filesystem / name for name in ("lower", "upper", "work", "merged")]
    for layer in layers:
        layer.mkdir()
    lower, upper, work, merged = layers
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, merged], check=True)
    try:
        with durable(merged / "file").open("rb") as handle:
            assert page_cache.num_resident_pages(handle.fileno()) == NUM_PAGES
            assert page_cache.drop(handle.fileno()) == 0
    finally:
        subprocess.run(["umount", merged], check=True)
