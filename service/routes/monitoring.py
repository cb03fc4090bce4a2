"""Figures for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.errors import NotFound
from service.http.problems import responses
from service.telemetry.metrics import CONTENT_TYPE, Metrics

SET_BY_PROXIES = ("x-forwarded-for", "forwarded")
"""What is asked through a proxy comes from outside, and would get the figures of any one instance."""

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"example": "ckpt_sizings_total 12.0\n"}}}, **responses(404)},
    summary="Metrics for Prometheus",
)
def metrics(request: Request) -> Response:
    """Requests, their durations, and what is in use. 404 through a proxy."""
    if any(header in request.headers for header in SET_BY_PROXIES):
        raise NotFound.of(
            "path",
            "must be requested from the instance, not through a proxy",
            value="/metrics",
            remedy="scrape each instance directly",
        )
    counted: Metrics = request.app.state.metrics
    return Response(counted.exposition(), media_type=CONTENT_TYPE)
