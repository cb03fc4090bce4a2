"""Exchanges between ranks that computing hides: how much of each, by framework, schedule and scenario."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields

from sizing.frameworks import FRAMEWORKS
from sizing.frameworks.framework import GatheredUnits
from sizing.layout import Parallelism
from sizing.provenance import Assumption
from sizing.state import Training
from sizing.state.training import Achieved, Schedule
from sizing.training.schedules import SCHEDULES

TENSOR_WHERE_ON = (0.21, 0.875)
"""Range of the fraction that overlap of tensor ranks hides where it is on; scenarios of such runs take the midpoint.

From 829 to 876 tokens per second and GPU with torch's asynchronous tensor parallelism, of which 30 % of a step are
waits by this model (published/measured_gpu_memory.json, llama-3.1-70b on 256 H100), to all of the all-gathers and three
of the four parts of each reduce-scatter (NVIDIA-NeMo/Megatron-Bridge, docs/performance-guide.md, num_split 4).
"""

CONTEXT_SOURCE = (
    "sends of a ring of context ranks overlap with attention: Liu et al. 2023, Ring Attention, arXiv 2310.01889; "
    "NVIDIA-NeMo/Megatron-Bridge, docs/performance-guide.md, cp_comm_type p2p"
)


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Fractions of each exchange between ranks that computing hides, as far as there is as much computing."""

    gradients: float
    tensor: float
    pipeline: float
    expert: float
    context: float

    @classmethod
    def of(cls, training: Training, schedule: Schedule, gathers: GatheredUnits) -> Overlaps:
        """Return the fractions that the scenario gives, else those of framework and schedule.

        >>> [Overlaps.of(Training(), name, "nothing").pipeline for name in ("interleaved", "1f1b")]
        [1.0, 0.0]
        """
        framework, pairs = FRAMEWORKS[training.framework], SCHEDULES[schedule].pairs_passes
        shipped = cls(
            gradients=float(gathers in framework.hides_exchange_of),
            tensor=0.0,
            pipeline=float(pairs or schedule in framework.hides_sends_of),
            expert=float(pairs),
            context=1.0,
        )
        given = (training.achieved or Achieved()).overlaps.model_dump(exclude_none=True)
        return cls(**(asdict(shipped) | given))


def overlap_assumptions(
    training: Training, parallelism: Parallelism, *, schedule: Schedule, gathers: GatheredUnits
) -> Iterator[Assumption]:
    """List how much of each exchange is assumed to be hidden that the degrees cause and the scenario does not say."""
    given = (training.achieved or Achieved()).overlaps
    framework, rules = FRAMEWORKS[training.framework], SCHEDULES[schedule]
    degrees = {name: getattr(parallelism, name) for name in ("tensor", "pipeline", "expert", "context")}
    degrees["gradients"] = parallelism.num_replicas
    shipped = Overlaps.of(training, schedule, gathers)
    for each in fields(Overlaps):
        name = each.name
        if degrees[name] > 1 and getattr(given, name) is None:
            is_of_schedule = rules.pairs_passes and name in ("pipeline", "expert")
            reason = rules.source if is_of_schedule else framework.exchange_source
            reason = CONTEXT_SOURCE if name == "context" else reason
            yield Assumption(field=f"training.achieved.overlap.{name}", value=getattr(shipped, name), reason=reason)
