"""What something beside bandwidth would be worth under an offer: a faster restore, a tier in front, a spare node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sizing.errors import InvalidInput
from sizing.explore.decisions.choices import TIERS, choose
from sizing.explore.decisions.decision_report import Worth
from sizing.explore.decisions.decision_request import DecisionRequest, Offer
from sizing.explore.decisions.ledger import costs_of
from sizing.explore.decisions.standing import Settled
from sizing.guesses.fields import with_field
from sizing.scenario import Scenario
from sizing.units import rate_text

_Document = dict[str, Any]

_FASTER = 2.0
"""Times the rates of reading: what twice the drives, links or servers would give."""
_READ_RATES = ("read_bytes_per_second", "node_read_bytes_per_second", "writer_read_bytes_per_second")
_NVME_BYTES_PER_SECOND = 5e9
"""Of a node, each way: below the 7.9 GB/s of the PCIe 4.0 x4 link of one drive. The row names it."""
_FIRST_INTERVAL_SECONDS = 300.0
"""To begin the search with; intervals are chosen anew."""
_NVME = {
    "kind": "local-nvme",
    "interval_seconds": _FIRST_INTERVAL_SECONDS,
    "storage": {
        "profile": {
            "node_write_bytes_per_second": _NVME_BYTES_PER_SECOND,
            "node_read_bytes_per_second": _NVME_BYTES_PER_SECOND,
        }
    },
}


def worths_of(request: DecisionRequest, offer: Offer, settled: Sequence[Settled]) -> list[Worth]:
    """What each would save over the horizon, with the intervals chosen anew where they may be; before what it costs.

    The GPUs of a spare node, which are idle, are taken off. Left out is what has no answer for a workload.
    """
    if not request.per_lost_gpu_hour or not settled:
        return []
    found = {what: [_saves(request, offer, each, change) for each in settled] for what, change in _CHANGES.items()}
    return [Worth(what=what, saves=math.fsum(saves)) for what, known in found.items() if (saves := _all_known(known))]


def _all_known(saves: Sequence[float | None]) -> list[float]:
    known = [each for each in saves if each is not None]
    return known if len(known) == len(saves) else []


def _saves(
    request: DecisionRequest, offer: Offer, settled: Settled, change: Callable[[Scenario], _Document | None]
) -> float | None:
    """Money that a changed scenario saves; None where it has no answer."""
    changed = change(settled.scenario)
    if changed is None:
        return None

    costs = costs_of(request, settled.workload, offer)

    def at_best(document: Mapping[str, Any]) -> float:
        return choose(document, {}, costs=costs, is_free=request.chooses_interval).money

    try:
        saves = at_best(_document_of(settled.scenario)) - at_best(changed)
    except InvalidInput:
        return None
    return saves if math.isfinite(saves) else None


def _document_of(scenario: Scenario) -> _Document:
    document = scenario.model_dump(exclude_unset=True)
    if not scenario.checkpoint.tiers:
        return document
    return with_field(
        document, TIERS, [tier.model_dump(mode="json", exclude_unset=True) for tier in scenario.checkpoint.tiers]
    )


def _reads_faster(scenario: Scenario) -> _Document | None:
    profile = scenario.run_inputs.profile
    if profile is None:
        return None
    given = profile.model_dump(exclude_none=True)
    faster = {name: _FASTER * given[name] for name in _READ_RATES if name in given}
    return with_field(_document_of(scenario), "storage", {"profile": given | faster}) if faster else None


def _with_drives(scenario: Scenario) -> _Document | None:
    document = _document_of(scenario)
    if scenario.checkpoint.front_tiers:
        return None
    return with_field(document, TIERS, [_NVME, *document.get("checkpoint", {}).get("tiers", ())])


def _with_a_spare(scenario: Scenario) -> _Document | None:
    """One node more in reserve; None where there is no reserve, for then another node is there at once."""
    reserve = scenario.reliability.reserve if scenario.reliability else None
    if reserve is None:
        return None
    more = reserve.model_copy(update={"num": reserve.num + 1})
    return with_field(_document_of(scenario), "reliability.spares", more.model_dump(exclude_unset=True))


_CHANGES: dict[str, Callable[[Scenario], _Document | None]] = {
    "reads at twice the rate": _reads_faster,
    f"a local NVMe tier of {rate_text(_NVME_BYTES_PER_SECOND)} per node": _with_drives,
    "one more spare node": _with_a_spare,
}
