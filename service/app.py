"""The application: routes, errors and headers around an open database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute

from service.access.provider import Provider
from service.access.scopes import TokenWith
from service.access.sessions import Sessions
from service.access.storing_turns import storing_turns
from service.compute.fair_turns import FairTurns
from service.compute.jobs import Jobs
from service.compute.pool import ComputePool
from service.compute.sizings import MAX_ASKED, THREADS, Sizings
from service.database.schema import migrated_database
from service.http.problems import responses
from service.middleware.exception_handlers import add_exception_handlers
from service.middleware.head import HeadAsGet
from service.middleware.observation import Observation
from service.middleware.rate_limit import RateLimit
from service.middleware.security_headers import SecurityHeaders
from service.openapi import correct
from service.routes import (
    audit_log,
    calibrations,
    catalogs,
    checkpoint_files,
    explorations,
    health,
    jobs,
    login,
    monitoring,
    page,
    runs,
    scenarios,
    sharing,
    sizings,
    storage_systems,
    trends,
    validation,
    whoami,
    withdrawals,
)
from service.routes.docs import add_docs_pages
from service.settings import Settings
from service.telemetry.metrics import Metrics
from sizing import __version__

ROUTERS = (
    sizings.router,
    explorations.router,
    checkpoint_files.router,
    checkpoint_files.inspections,
    jobs.router,
    catalogs.router,
    validation.router,
    storage_systems.router,
    runs.router,
    runs.publication,
    withdrawals.router,
    trends.router,
    calibrations.router,
    scenarios.router,
    sharing.router,
    sharing.shared,
    whoami.router,
    audit_log.router,
    monitoring.router,
)
"""What `require_login` closes."""
OTHER_KEYS = (runs.publication, sharing.shared)
"""Which demand what need not be a token that reads: one to publish, the key of a sharing link."""


def _methods_at(routers: Iterable[APIRouter]) -> dict[str, set[str]]:
    """The methods of each path."""
    found: dict[str, set[str]] = {}
    for route in (route for router in routers for route in router.routes if isinstance(route, APIRoute)):
        found.setdefault(route.path, set()).update(route.methods or ())
    return found


class Service(FastAPI):
    """A FastAPI application with a corrected OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made once."""
        if self.openapi_schema is None:
            correct(super().openapi())
        return super().openapi()


def create_app(settings: Settings) -> FastAPI:
    """The service over its database, which is brought to this version's schema.

    Raises CannotServe where the database cannot be used.
    """
    database = migrated_database(settings.database_url)
    metrics = Metrics()
    metrics.watch(database.engine)
    compute = ComputePool(settings, metrics)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await app.state.jobs.close()
        compute.close()
        database.close()

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
    )
    app.state.settings, app.state.database = settings, database
    app.state.metrics, app.state.compute, app.state.sizings = metrics, compute, Sizings(database, compute)
    app.state.jobs = Jobs(database, settings, metrics)
    app.state.storing_turns, app.state.validation_turns = storing_turns(), FairTurns(THREADS, max_asked=MAX_ASKED)
    app.add_middleware(HeadAsGet)
    if settings.requests_per_second:
        app.add_middleware(RateLimit, requests_per_second=settings.requests_per_second)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Observation, metrics=metrics)
    app.state.sessions = Sessions(settings) if settings.oidc_issuer else None
    app.state.provider = Provider(settings) if settings.oidc_issuer else None
    add_exception_handlers(app)
    _add_routes(app, settings)
    add_docs_pages(app)
    return app


def _add_routes(app: FastAPI, settings: Settings) -> None:
    reader = [Depends(TokenWith("read"))] if settings.require_login else []
    refusals = responses(429) | (responses(401) if settings.require_login else {})
    for router in ROUTERS:
        demanded = [] if router in OTHER_KEYS else reader
        app.include_router(router, dependencies=demanded, responses=refusals)
    for router in (health.router, page.router, login.router):
        app.include_router(router)
    app.state.methods_at = _methods_at([*ROUTERS, health.router, login.router])
