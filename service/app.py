"""The application: routes, errors and headers around an open database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI

from service.access.scopes import TokenWith
from service.access.storing_turns import storing_turns
from service.answers.quick import QuickAnswers
from service.compute.pool import ComputePool
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
    explorations,
    health,
    monitoring,
    runs,
    scenarios,
    sizings,
    storage_systems,
    validation,
)
from service.routes.docs import add_docs_pages
from service.settings import Settings
from service.telemetry.metrics import Metrics
from sizing import __version__

ROUTERS = (
    sizings.router,
    explorations.router,
    catalogs.router,
    validation.router,
    storage_systems.router,
    runs.router,
    calibrations.router,
    scenarios.router,
    audit_log.router,
    monitoring.router,
)
"""What `require_login` closes."""


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
        compute.close()
        database.close()

    app = Service(
        title="checkpoint-sizing",
        summary="What storage does a training cluster need for its checkpoints?",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.settings, app.state.database = settings, database
    app.state.metrics, app.state.compute, app.state.quick_answers = metrics, compute, QuickAnswers(database)
    app.state.storing_turns = storing_turns()
    app.add_middleware(HeadAsGet)
    if settings.requests_per_second:
        app.add_middleware(RateLimit, requests_per_second=settings.requests_per_second)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Observation, metrics=metrics)
    add_exception_handlers(app)
    login = [Depends(TokenWith())] if settings.require_login else []
    refusals = responses(429) | (responses(401) if settings.require_login else {})
    for router in ROUTERS:
        app.include_router(router, dependencies=login, responses=refusals)
    app.include_router(health.router)
    add_docs_pages(app)
    return app
