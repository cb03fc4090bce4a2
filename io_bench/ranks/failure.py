"""How a run fails, as its ranks tell each other."""

from __future__ import annotations

from dataclasses import dataclass

from io_bench.errors import RanksLost, exit_code_of
from io_bench.interruption import Interrupted
from sizing.errors import SizingError


@dataclass(frozen=True, slots=True)
class Failure:
    """The first failure of any rank; `lost` are the ranks that it is about."""

    message: str
    exit_code: int
    lost: tuple[int, ...] = ()


def failure_of(error: BaseException, *, rank: int) -> Failure:
    """What an error on a rank is to all."""
    match error:
        case SizingError():
            message = str(error)
        case Interrupted():
            message = f"Rank {rank} {error}."
        case _:
            message = f"Rank {rank} failed: {type(error).__name__}: {error}."
    lost = error.ranks if isinstance(error, RanksLost) else ()
    return Failure(message, exit_code_of(error), lost)
