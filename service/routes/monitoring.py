"""Figures for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.metrics import CONTENT_TYPE, Metrics

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"example": "ckpt_sizings_total 12.0\n"}}}},
    summary="Figures for Prometheus",
)
def metrics(request: Request) -> Response:
    """How many requests of which kind, how long they took, and what is in use."""
    counted: Metrics = request.app.state.metrics
    return Response(counted.exposition(), media_type=CONTENT_TYPE)
