"""How far the calculation can be believed. It changes with the version alone, so clients may keep what they got."""

from __future__ import annotations

import functools

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.routes.catalogs import NOT_MODIFIED, Document, IfNoneMatch
from sizing.validation import ValidationReport, validation

router = APIRouter(prefix="/v1", tags=["validation"])


@router.get(
    "/validation", response_model=ValidationReport, responses=NOT_MODIFIED, summary="Predicted against published"
)
async def get_validation(if_none_match: IfNoneMatch = None) -> Response:
    """Every comparison with something published, in three parts, each counted.

    The parts are observations of real systems, figures of other tools, and recomputed arithmetic. Misses have a reason.
    """
    document = await run_in_threadpool(_document)
    return document.response(if_none_match)


@functools.cache
def _document() -> Document:
    """The report, which takes a fifth of a second to make once."""
    return Document.of(validation().model_dump_json().encode())
