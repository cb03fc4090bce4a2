"""A run as all ranks have agreed to do it, before torch is loaded: bad input is answered at once."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from io_bench.options import RunOptions
from io_bench.process_group import ProcessGroup
from io_bench.target import Target, checked_target


@dataclass(frozen=True, slots=True)
class Request:
    """The options, the target, and the identity that rank 0 has drawn."""

    options: RunOptions
    target: Target
    run_id: str
    seed: int

    @property
    def output(self) -> str:
        """Where the result document goes."""
        return self.options.output if self.options.output is not None else f"ckpt-bench-{self.run_id}.json"


def request_of(flags: Mapping[str, object], group: ProcessGroup) -> Request:
    """The request that the flags spell, on all ranks. Raises InvalidInput for flags and target."""
    options = group.agree(lambda: RunOptions.of(flags), doing="reading the flags")
    target = group.agree(lambda: checked_target(options.target, is_first=group.rank == 0), doing="checking the target")
    run_id, seed = group.exchange(_identity(options.seed), doing="agreeing on an identity")[0]
    return Request(options, target, run_id, seed)


def _identity(seed: int | None) -> tuple[str, int]:
    """A run id that sorts by time, and a seed: a fresh one unless given, so that runs write other bytes."""
    now = datetime.datetime.now(datetime.UTC)
    run_id = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    return run_id, secrets.randbits(63) if seed is None else seed
