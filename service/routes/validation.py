"""How far the calculation can be believed. It changes with the version alone, so clients may keep what they got."""

from __future__ import annotations

import functools

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.http.constant import NOT_MODIFIED, Constant, Sender
from sizing.validation import ValidationReport, validation

router = APIRouter(prefix="/v1", tags=["validation"])


@router.get(
    "/validation", response_model=ValidationReport, responses=NOT_MODIFIED, summary="Predicted against published"
)
async def get_validation(send: Sender) -> Response:
    """Every comparison with something published, in three parts, each counted.

    The parts are observations of real systems, figures of other tools, and recomputed arithmetic. Misses have a reason.
    """
    return send(await run_in_threadpool(_document))


@functools.cache
def _document() -> Constant:
    """The report, which takes a fifth of a second to make once."""
    return Constant(validation().model_dump_json().encode())
