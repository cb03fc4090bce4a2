"""`torch.save` and `torch.load` with errors that say what happened."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError

from io_bench.errors import RunFailed
from io_bench.interruption import Interrupted
from io_bench.payload import State


def save(state: Mapping[Any, Any], file: BinaryIO) -> None:
    """Save to an open file. Raises OSError and Interrupted as they were."""
    try:
        torch.save(state, file)
    except RuntimeError as error:
        raise _cause_of(error) from error


@contextmanager
def loading(title: str) -> Iterator[None]:
    """Around `torch.load`: RunFailed where what it reads is no checkpoint; OSError and Interrupted as they were.

    Args: `title`, what is read, e.g. its path.
    """
    try:
        yield
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        cause = _cause_of(error)
        if cause is not error:
            raise cause from error
        raise RunFailed(f"{title} cannot be read back: {error}.") from error


def salvaged(path: str) -> State | None:
    """What a file of torch.save holds, whatever its checksums say; None where it is no such file any more."""
    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True, mmap=True))
    except (RuntimeError, ValueError, EOFError, OSError, pickle.UnpicklingError, SafetensorError):
        return None


def _cause_of(error: BaseException) -> BaseException:
    """The error of the operating system, or the signal, that torch's container writer has covered up.

    Its destructor raises "unexpected pos" over what stopped the write, which is then the context.
    """
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, (OSError, Interrupted)):
            return link
        link = link.__cause__ or link.__context__
    return error
