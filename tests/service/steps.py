"""A question of several chunks for tests: each notes who computes it, and waits until a file lets it go on."""

import math
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel

from sizing.present.rows import Summary
from sizing.questions.chunks import ItemRange, Progress
from sizing.questions.question import Question, RequestFiles, RestRoute
from sizing.questions.registry import QuestionEntry

STEPS: QuestionEntry["StepsRequest", "StepsReport"] = QuestionEntry(
    "steps", "Take a number of steps.", module="tests.service.steps"
)
NUM_STEPS = 4
PROGRAM = [
    sys.executable,
    "-c",
    "from sizing.questions.registry import QUESTIONS, QuestionEntry; "
    f"QUESTIONS['steps'] = QuestionEntry(*{tuple(STEPS)!r}); "
    "from service.cli.main import main; main()",
]
"""The service with this question."""


class StepsRequest(BaseModel):
    folder: str
    num_steps: int = NUM_STEPS
    kills: bool = False
    """Whether each step kills its process."""
    seconds: float | None = None
    """Time that each step takes; None where it waits until a file lets it go on."""


class StepsPart(BaseModel):
    value: float


class StepsReport(BaseModel):
    value: float


class Steps:
    """Work of one chunk for each step."""

    part = StepsPart

    def __init__(self, request: StepsRequest) -> None:
        self.request = request
        self.chunks: Sequence[ItemRange] = [ItemRange(n, n + 1) for n in range(request.num_steps)]

    def compute(self, items: ItemRange, progress: Progress) -> StepsPart:
        folder = Path(self.request.folder)
        with (folder / "begun").open("a") as begun:
            begun.write(f"{items.start} {os.getpid()}\n")
        if self.request.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.request.seconds is not None:
            time.sleep(self.request.seconds)
        while self.request.seconds is None and not (folder / f"go-{items.start}").exists():
            time.sleep(0.02)
        progress(1.0)
        return StepsPart(value=math.sin(items.stop) / 3)

    def merge(self, parts: Iterable[StepsPart]) -> StepsReport:
        return StepsReport(value=sum(part.value for part in parts))


def let_go(folder: Path, *steps: int) -> None:
    """Let steps end."""
    for step in steps:
        (folder / f"go-{step}").touch()


def begun(folder: Path) -> list[tuple[int, int]]:
    """The steps that were begun, in order, with the process of each."""
    file = folder / "begun"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(step), int(pid)) for step, pid in map(str.split, lines)]


QUESTION = Question[StepsRequest, StepsReport](
    title="Steps",
    request=StepsRequest,
    report=StepsReport,
    example={"folder": "."},
    route=RestRoute(path="steps", name="create_steps", summary="Steps", description="Steps.", example="Steps"),
    work=Steps,
    summary=lambda report: Summary(f"{report.value}", grids=()),
    command_line=RequestFiles("request", "Steps"),
    may_name_calibrations=(),
)
