"""Other runs on the same target at the same time: each takes bandwidth from the other, so either result says so."""

from __future__ import annotations

import contextlib

from io_bench.target.lifecycle.manifest import Manifest
from io_bench.target.lifecycle.places import living
from io_bench.target.target import Target

SECONDS_BETWEEN_LOOKS = 5.0
"""A choice: a list of the target's entries now and then is nothing to storage, and shorter company disturbs little."""


class Company:
    """The runs that were seen beside one run, on rank 0."""

    def __init__(self, target: Target, run_id: str) -> None:
        self._target = target
        self._run_id = run_id
        self._seen: dict[str, Manifest] = {}

    def look(self) -> None:
        """See who is there now. Raises OSError."""
        for run_id in self._target.run_ids():
            with contextlib.suppress(FileNotFoundError):
                manifest = living(self._target, run_id) if run_id != self._run_id else None
                if manifest:
                    self._seen[run_id] = manifest

    @property
    def notes(self) -> list[str]:
        """What the result must say of them."""
        return [
            f"Run {run_id} of {manifest.user}@{manifest.host} used this target at the same time: each took bandwidth "
            "from the other. Measure again, one after the other."
            for run_id, manifest in self._seen.items()
        ]
