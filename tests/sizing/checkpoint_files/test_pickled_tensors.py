"""Tensors of pickles that torch has not written itself: what is read of them, or the sentence that refuses them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from sizing.checkpoint_files import contents_of
from sizing.checkpoint_files.pickle_reading import PERSISTENT, Inert, Name, RefusedPickle
from sizing.checkpoint_files.torch_save import pickled_tensors

REBUILD = "torch._utils._rebuild_tensor_v3"
FLOATS = Inert(PERSISTENT, (("storage", Name("torch.FloatStorage"), "0", "cpu", 6),))


def tensor(*dtype: Any) -> Inert:
    """Six values, rebuilt as version 3 does, with a dtype of its own."""
    return Inert(REBUILD, (FLOATS, 0, (2, 3), (3, 1), False, None, *dtype))


def test_a_tensor_is_named_by_the_keys_and_places_that_lead_to_it() -> None:
    root = {"model": [{"weight": tensor(Name("torch.int32"))}], Name("torch.float16"): {7: {None: tensor()}}}
    assert [(found.name, found.dtype) for found in pickled_tensors(root)] == [
        ("model.0.weight", "int32"),
        ("torch.float16.7.NoneType", "float32"),
    ]


@pytest.mark.parametrize("dtype", [Name("torch.nonsense"), "float32", None])
def test_a_dtype_that_is_none_is_refused_in_words(dtype: Any) -> None:
    with pytest.raises(RefusedPickle, match=r"^a tensor has no dtype$"):
        list(pickled_tensors([tensor(dtype)]))


def test_a_state_dict_may_hold_what_is_no_tensor(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(3), "names": frozenset({"x", "y"})}, tmp_path / "a.pt", pickle_protocol=4)
    contents = contents_of(tmp_path / "a.pt")
    assert contents.tensor_bytes == 12
    assert pickle.FROZENSET in pickle.dumps(frozenset({"x"}), protocol=4)
