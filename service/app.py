"""The application: routes, errors and limits put together."""

from __future__ import annotations

from fastapi import FastAPI, Request
from sqlalchemy import Engine
from starlette.middleware.base import RequestResponseEndpoint
from starlette.responses import Response

from service import problems
from service.body_check import BodyCheck
from service.docs_page import add_docs
from service.routes import catalogs, health, scenarios, sizings
from service.settings import Settings
from sizing import __version__

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_API_POLICY = "default-src 'none'; frame-ancestors 'none'"
_DOCS_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'"
)


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """The service on an opened database."""
    app = FastAPI(
        title="checkpoint-sizing",
        summary="What storage a training cluster needs for its checkpoints",
        version=__version__,
        docs_url=None,
        redoc_url=None,
    )
    app.state.engine = engine
    for routes in (sizings, catalogs, scenarios, health):
        app.include_router(routes.router)
    add_docs(app)
    problems.add_handlers(app)
    app.middleware("http")(_with_security_headers)
    app.add_middleware(BodyCheck, max_bytes=settings.max_body_bytes)
    return app


async def _with_security_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
    response = await call_next(request)
    is_page = request.url.path.startswith("/docs")
    response.headers.update(_HEADERS | {"Content-Security-Policy": _DOCS_POLICY if is_page else _API_POLICY})
    return response
