"""Folders that Hugging Face Trainer, accelerate and Lightning really write: whose they are, and what their files hold."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sizing.checkpoint_files import CheckpointContents, contents_of
from tests.sizing.checkpoint_files.trained import num_parameters, tiny_llama
from tests.testbed.processes import SECONDS_UNTIL_STUCK

SAVE = Path(__file__).with_name("library_folders.py")
pytestmark = pytest.mark.long


def written_by(library: str, folder: Path) -> CheckpointContents:
    """What the library, which `scripts/test long` installs, has saved."""
    done = subprocess.run(
        [sys.executable, SAVE, library, folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_UNTIL_STUCK,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    return contents_of(folder)


@pytest.mark.parametrize(
    ("library", "layout", "held"),
    [
        ("trainer", "Hugging Face Trainer", {"random state", "scheduler", "settings"}),
        ("accelerate", "accelerate", {"random state", "scheduler"}),
        ("lightning", "Lightning", set()),
    ],
)
def test_the_folder_is_known_and_its_parts_are_told_apart(
    tmp_path: Path, library: str, layout: str, held: set[str]
) -> None:
    needed = "accelerate" if library == "trainer" else library
    assert importlib.util.find_spec(needed), f"{needed} is missing: run scripts/test long"
    contents, count = written_by(library, tmp_path), num_parameters(tiny_llama())
    assert (contents.layout, contents.num_parameters) == (layout, count)
    assert (contents.part_bytes["weights"], contents.part_bytes["moments"]) == (4 * count, 8 * count)
    assert set(contents.small_state_bytes) == held
    assert contents.is_whole
    files = {Path(file.name).name: file.holds for file in contents.files}
    if library == "lightning":
        (holds,) = files.values()
        assert holds == ("weights", "optimizer", "scheduler", "data loader")
    else:
        assert files["model.safetensors"] == ("weights",)
        assert next(holds for name, holds in files.items() if name.startswith("optimizer")) == ("optimizer",)
