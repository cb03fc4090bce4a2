"""The application: routes, errors and headers around an open database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from service.database import open_database
from service.database.schema import migrate
from service.docs_pages import add_docs_pages
from service.openapi import correct
from service.problems import add_problem_handlers
from service.routes import catalogs, health, scenarios, sizings
from service.security_headers import SecurityHeaders
from service.settings import Settings
from sizing import __version__

ROUTERS = (sizings.router, catalogs.router, scenarios.router, health.router)


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
    database = open_database(settings.database_url)
    migrate(database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
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
    app.add_middleware(SecurityHeaders)
    add_problem_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    add_docs_pages(app)
    return app
