"""A run as all ranks have agreed to do it, before torch is loaded: bad input is answered at once."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import JsonValue

from io_bench.ranks.process_group import ProcessGroup
from io_bench.request.options import Options
from io_bench.target.address import checked_target, is_url, spread_paths
from io_bench.target.lifecycle.manifest import MANIFEST
from io_bench.target.spread.spread_directories import SpreadDirectories
from io_bench.target.spread.spread_target import Spreading
from io_bench.target.target import Target
from sizing.cli.files import read_document
from sizing.errors import InvalidInput, UnreadableFile
from sizing.scenario import Scenario, scenario_from

AnyOptions = TypeVar("AnyOptions", bound=Options)


@dataclass(frozen=True, slots=True)
class Request(Generic[AnyOptions]):
    """The options, the target, the scenario if any, and the identity that rank 0 has drawn."""

    options: AnyOptions
    target: Target
    scenario: Scenario | None
    run_id: str
    seed: int

    @property
    def output(self) -> str:
        """Where the result document goes."""
        return self.options.output if self.options.output is not None else f"ckpt-bench-{self.run_id}.json"

    @property
    def scenario_document(self) -> dict[str, JsonValue] | None:
        """The scenario as results keep it."""
        return None if self.scenario is None else self.scenario.model_dump(mode="json", exclude_none=True)


def request_of(kind: type[AnyOptions], flags: Mapping[str, object], group: ProcessGroup) -> Request[AnyOptions]:
    """The request that the flags spell, on all ranks. Raises InvalidInput for flags, scenario and target."""
    options = group.agree(lambda: kind.of(flags), doing="reading the flags")
    target = group.agree(lambda: _target(options, group), doing="checking the target")
    scenario = _scenario(options.scenario, group)
    run_id, seed = group.told(_identity(options.seed), doing="agreeing on an identity")
    return Request(options, target, scenario, run_id, seed)


def _target(options: Options, group: ProcessGroup) -> Target:
    """The target of this rank: of several its own. Raises InvalidInput."""
    paths = spread_paths(options.target)
    if len(paths) == 1:
        return checked_target(options.target, is_first=group.rank == 0)
    options.check_spread()
    here = group.placement
    ranks_of_node = sum(each.node == here.node for each in group.placements)
    spreading = Spreading(here.local_rank, ranks_of_node, in_every_place=(MANIFEST,))
    if not is_url(options.target):
        return SpreadDirectories.checked(paths, spreading)
    from io_bench.target.spread.spread_urls import SpreadUrls  # noqa: PLC0415 - fsspec, where it is needed

    return SpreadUrls.checked(paths, spreading, is_first=group.rank == 0)


def _scenario(path: str | None, group: ProcessGroup) -> Scenario | None:
    """The scenario as rank 0 reads it: the others need not see its file."""
    if path is None:
        return None
    read = group.agree(lambda: scenario_document(path) if group.rank == 0 else None, doing="reading the scenario")
    document = group.told(read, doing="sharing the scenario")
    return group.agree(lambda: scenario_from(document), doing="checking the scenario")


def scenario_document(path: str) -> dict[str, object]:
    """What a scenario's file holds, not yet checked. Raises InvalidInput."""
    try:
        return read_document(Path(path))
    except UnreadableFile as error:
        raise InvalidInput.of(
            "--scenario", f"must be a scenario ({error})", value=path, remedy="give a scenario file of ckpt-size"
        ) from error


def _identity(seed: int | None) -> tuple[str, int]:
    """A run id that sorts by time, and a seed: a fresh one unless given, so that runs write other bytes."""
    now = datetime.datetime.now(datetime.UTC)
    run_id = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    return run_id, secrets.randbits(63) if seed is None else seed
