"""Application: routes, errors and headers around an open database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

from service.access.provider import Provider
from service.access.scopes import SYSTEMS, TokenWith, refuse_other_systems
from service.access.sessions import Sessions
from service.access.write_limiter import new_write_limiter
from service.compute.fair_turns import FairTurns
from service.compute.jobs import Jobs
from service.compute.pool import ComputePool
from service.compute.sizings import MAX_ASKED, THREADS, Sizings
from service.database.schema import migrated_database
from service.http.fair_room import room_for_answers, room_for_questions
from service.http.problems import responses
from service.http.queries import refuse_unknown_query
from service.middleware.exception_handlers import add_exception_handlers
from service.middleware.observation import RequestObservation
from service.middleware.rate_limit import RateLimit
from service.middleware.responses import AnswersInRoom, HeadAsGet, ResponseCompression, SecurityHeaders, StoppedRequests
from service.notices import Notices
from service.openapi import correct
from service.routes import (
    audit_log,
    calibrations,
    catalogs,
    checkpoint_files,
    health,
    imports,
    jobs,
    login,
    pages,
    questions,
    runs,
    scenarios,
    sharing,
    storage_systems,
    trends,
)
from service.routes.pages import add_docs_pages
from service.settings import Settings
from service.telemetry import Metrics
from service.tracing import Tracing
from sizing import __version__

ROUTERS = (
    questions.router,
    checkpoint_files.inspections,
    imports.config_files,
    imports.offer_tables,
    jobs.router,
    catalogs.router,
    catalogs.comparisons,
    storage_systems.router,
    runs.router,
    runs.publication,
    runs.withdrawals,
    trends.router,
    calibrations.router,
    scenarios.router,
    sharing.router,
    sharing.shared,
    login.holders,
    audit_log.router,
    health.monitoring,
)
"""Routers that `require_login` closes."""
OTHER_KEYS = (runs.publication, sharing.shared)
"""Routers whose key need not be a token that reads: one to publish, the key of a sharing link."""

_SECONDS_TO_REFUSE = 2.0
"""Wait for the refusals of requests that the server cancels as it stops: a line each, to clients that read it."""


class Service(FastAPI):
    """FastAPI application with a corrected OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, made once."""
        if self.openapi_schema is None:
            correct(super().openapi())
        return super().openapi()


def create_app(settings: Settings) -> FastAPI:
    """Create the service over its database, which is migrated to this version's schema.

    Raises CannotServe where the database cannot be used.
    """
    database = migrated_database(settings.database_url)
    metrics = Metrics()
    metrics.watch(database.engine)
    compute = ComputePool(settings, metrics)
    tracing = Tracing(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        app.state.notices.start()
        app.state.jobs.start()
        yield
        app.state.notices.close()
        await app.state.jobs.close()
        compute.close()
        if app.state.running:
            await asyncio.wait(app.state.running, timeout=_SECONDS_TO_REFUSE)
        database.close()
        await tracing.close()

    app = Service(
        title="checkpoint-sizing",
        summary="What storage does a training cluster need for its checkpoints?",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        telemetry=tracing.of_requests,
    )
    app.state.settings, app.state.database = settings, database
    app.state.metrics, app.state.compute = metrics, compute
    app.state.loop_turns = FairTurns(1, max_asked=settings.max_connections)
    app.state.sizings = Sizings(database, compute, app.state.loop_turns)
    app.state.jobs = Jobs(database, settings, metrics, tracing)
    app.state.notices = Notices(settings)
    app.state.write_limiter, app.state.trend_turns = new_write_limiter(), FairTurns(THREADS, max_asked=MAX_ASKED)
    app.state.body_room, app.state.body_turns = room_for_questions(settings), FairTurns(1, max_asked=MAX_ASKED)
    app.add_middleware(HeadAsGet)
    app.add_middleware(ResponseCompression)
    app.add_middleware(AnswersInRoom, room=room_for_answers(settings))
    if settings.requests_per_second:
        app.add_middleware(RateLimit, requests_per_second=settings.requests_per_second)
    app.state.running = set[asyncio.Task[Any]]()
    app.add_middleware(StoppedRequests, running=app.state.running)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(RequestObservation, metrics=metrics)
    app.state.sessions = Sessions(settings) if settings.oidc_issuer else None
    app.state.provider = Provider(settings) if settings.oidc_issuer else None
    add_exception_handlers(app)
    _add_routes(app, settings)
    add_docs_pages(app)
    return app


def _add_routes(app: FastAPI, settings: Settings) -> None:
    """Add all routes, closed to who has no token where a login is required, and collect the methods of each path."""
    reader = [Depends(TokenWith("read"))] if settings.require_login else []
    refusals = responses(422, 429) | (responses(401) if settings.require_login else {})
    for router in ROUTERS:
        is_of_systems = router.prefix.startswith(SYSTEMS)
        limits = [Depends(refuse_other_systems)] if is_of_systems else []
        dependencies = [Depends(refuse_unknown_query), *([] if router in OTHER_KEYS else reader), *limits]
        more = responses(403) if is_of_systems else {}
        app.include_router(router, dependencies=dependencies, responses=refusals | more)
    for router in (health.router, pages.router, login.router):
        app.include_router(router)
    methods_at: dict[str, set[str]] = {}
    for route in (route for router in (*ROUTERS, health.router, login.router) for route in router.routes):
        if isinstance(route, APIRoute):
            methods_at.setdefault(route.path, set()).update(route.methods or ())
    app.state.methods_at = methods_at
