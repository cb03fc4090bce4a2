"""The part of a rank in a run whose checkpoint other ranks restore than have saved it."""

from __future__ import annotations

from collections.abc import Callable

from io_bench.engines import EnginePlan, IoReport
from io_bench.errors import explained_io_errors
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.payload import Payload, checksum
from io_bench.planning.plan import WriterPlan
from io_bench.repetition.part import Evidence, WritingPart
from io_bench.shapes.resharded_dcp import ReshardedDcp
from io_bench.shapes.retention import Retention


class ReshardedPart(WritingPart):
    """What it restores is compared with what the ranks that saved it had, byte by byte; what it reads back, too."""

    def __init__(
        self,
        own: WriterPlan,
        *,
        engine: ReshardedDcp,
        payload: Payload,
        source_payload: Callable[[], Payload],
        retention: Retention,
        device: Device,
        rank: int,
    ) -> None:
        """Args: `source_payload` makes what this rank must have restored."""
        super().__init__(
            own,
            engine=engine,
            payload=payload,
            source_payload=source_payload,
            retention=retention,
            device=device,
            rank=rank,
        )
        self._resharded_engine = engine
        self._written = ""
        self._read_back: State | None = None

    def refilled(self, repetition: int) -> str:
        """In memory."""
        self._written = super().refilled(repetition)
        return self._written

    def restore_as_saved(self) -> IoReport:
        """By the engine."""
        plan = self._own.engine_plan
        with explained_io_errors(f"reading {self._names(plan)}", rank=self._rank):
            return self._observed(lambda: self._as_saved(plan))

    def check(self, plan: EnginePlan, expected: str) -> Evidence:  # noqa: ARG002 - it holds rows of several ranks
        """Over every byte."""
        if self._read_back is not None and checksum(self._read_back) != self._written:
            problem = "What this rank had saved differs where it reads it back."
            return Evidence(tuple(map(self._files.location, plan.files)), problem, is_sound=False)
        found = self._evidence(plan, self._restored if self._problem is None else None)
        return found if found.problem or found.differences else Evidence()

    def forget(self) -> None:
        """Both copies."""
        super().forget()
        self._read_back = None

    def _as_saved(self, plan: EnginePlan) -> IoReport:
        restored = self._resharded_engine.restore_as_saved(self._files, plan)
        self._read_back = restored.state
        return restored.report
