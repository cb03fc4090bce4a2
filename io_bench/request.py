"""A request: the options, the target and the identity of a run, on which all ranks agree."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import JsonValue

from io_bench.options import Options, PayloadOptions
from io_bench.ranks.process_group import ProcessGroup
from io_bench.target.address import checked_target, is_url, spread_paths
from io_bench.target.places import MANIFEST
from io_bench.target.spread import SpreadDirectories, Spreading
from io_bench.target.target import Target
from sizing.errors import InvalidInput, UnreadableFile
from sizing.scenario import Scenario, scenario_from
from sizing.terminal.files import read_document

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
        """Path of the result document."""
        return self.options.output if self.options.output is not None else f"ckpt-bench-{self.run_id}.json"

    @property
    def scenario_document(self) -> dict[str, JsonValue] | None:
        """The scenario as JSON, as results keep it; None without one."""
        return None if self.scenario is None else self.scenario.model_dump(mode="json", exclude_none=True)


def request_of(kind: type[AnyOptions], flags: Mapping[str, object], group: ProcessGroup) -> Request[AnyOptions]:
    """Agree on the request that the flags spell. Raises InvalidInput for flags, scenario and target."""
    options = group.agree(lambda: kind.of(flags), doing="reading the flags")
    target = group.agree(lambda: _choose_target(options, group), doing="checking the target")
    path = options.scenario if isinstance(options, PayloadOptions) else None
    scenario = None if path is None else _share_scenario(path, group)
    # The run id sorts by time; a seed of its own has each run write other bytes.
    now = datetime.datetime.now(datetime.UTC)
    identity = (
        f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        secrets.randbits(63) if options.seed is None else options.seed,
    )
    run_id, seed = group.broadcast(identity, doing="agreeing on an identity")
    return Request(options, target, scenario, run_id, seed if options.seed is None else options.seed)


def _choose_target(options: Options, group: ProcessGroup) -> Target:
    """Choose the target of this rank: of several its own. Raises InvalidInput."""
    paths = spread_paths(options.target)
    if len(paths) == 1:
        return checked_target(options.target, is_first=group.rank == 0)
    options.check_spread()
    here = group.placement
    spreading = Spreading(here.local_rank, group.ranks_per_node[here.node], in_every_place=(MANIFEST,))
    if not is_url(options.target):
        return SpreadDirectories.checked(paths, spreading)
    from io_bench.target.spread_urls import SpreadUrls  # noqa: PLC0415 - fsspec, where it is needed

    return SpreadUrls.checked(paths, spreading, is_first=group.rank == 0)


def _share_scenario(path: str, group: ProcessGroup) -> Scenario:
    """Read the scenario on rank 0, and share it: the others need not see its file."""
    read = group.agree(lambda: scenario_document(path) if group.rank == 0 else None, doing="reading the scenario")
    document = group.broadcast(read, doing="sharing the scenario")
    return group.agree(lambda: scenario_from(document), doing="checking the scenario")


def scenario_document(path: str) -> dict[str, object]:
    """Read a scenario's file, without checking it. Raises InvalidInput."""
    try:
        return read_document(Path(path))
    except UnreadableFile as error:
        rule, remedy = f"must be a scenario ({error})", "give a scenario file of ckpt-size"
        raise InvalidInput.of("--scenario", rule, value=path, remedy=remedy) from error
