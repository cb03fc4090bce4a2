"""What one save or restore asks of the shared file system, read off the limits of the job that has it to itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sizing.storage.limits import Limit

_FILE_SYSTEM = "file-system"


@dataclass(frozen=True, slots=True)
class TransferLoad:
    """One transfer of a job: `lead_seconds` that take no bandwidth, then `num_bytes` at its share of the file system.

    `max_bytes_per_second` is what the job's own writers and nodes allow, infinite where only the file system limits.
    """

    num_bytes: float
    lead_seconds: float
    max_bytes_per_second: float
    weight: float

    @classmethod
    def of(
        cls, num_bytes: float, seconds: float, limits: Sequence[Limit], *, weight: float, more_lead_seconds: float
    ) -> TransferLoad:
        """A transfer that takes `seconds` alone, of which the serial steps come first.

        `more_lead_seconds` take no bandwidth either; less than 0 for time that passes before the transfer begins.
        """
        serial = sum(limit.seconds for limit in limits if limit.slack_fraction is None)
        return cls(
            num_bytes,
            max(0.0, serial + more_lead_seconds),
            _own_bytes_per_second(limits, alone=num_bytes / (seconds - serial)),
            weight,
        )

    def rate_alone(self, bytes_per_second: float) -> float:
        """Rate of the transfer that has the file system to itself."""
        return min(self.max_bytes_per_second, bytes_per_second)

    def transfer_seconds(self, bytes_per_second: float) -> float:
        """Time that bytes flow, alone on a file system of that rate."""
        return self.num_bytes / self.rate_alone(bytes_per_second)

    def alone_seconds(self, bytes_per_second: float) -> float:
        """Time from start to end, alone on a file system of that rate."""
        return self.lead_seconds + self.transfer_seconds(bytes_per_second)


def _own_bytes_per_second(limits: Sequence[Limit], *, alone: float) -> float:
    """What the job's own writers and nodes allow: the rate `alone`, where they and not the file system limit that."""
    shared = [limit for limit in limits if limit.slack_fraction is not None]
    if not any(limit.resource == _FILE_SYSTEM and limit.slack_fraction == 0 for limit in shared):
        return alone
    own = (limit.bytes_per_second for limit in shared if limit.resource != _FILE_SYSTEM)
    return min((rate for rate in own if rate is not None), default=math.inf)
