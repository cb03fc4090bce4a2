"""The OpenAPI document, and `/docs`: Swagger UI over it, with every asset from an installed package."""

from __future__ import annotations

import asyncio
import json
from importlib import resources

import fastapi_offline
from fastapi import APIRouter, FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from service.http.constant import Constant, Sender

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""Swagger UI sets styles on its elements and draws icons from data URLs; scripts come from here alone."""

router = APIRouter(include_in_schema=False)


class OpenApiDocument:
    """The OpenAPI document of an application: made when it is first asked for, in a thread, as it takes seconds."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._making = asyncio.Lock()
        self._made: Constant | None = None

    async def made(self) -> Constant:
        """The document."""
        async with self._making:
            if self._made is None:
                self._made = await run_in_threadpool(lambda: Constant(json.dumps(self._app.openapi()).encode()))
            return self._made


def add_docs_pages(app: FastAPI) -> None:
    """Serve the OpenAPI document, `/docs` and what it loads."""
    app.state.openapi_document = OpenApiDocument(app)
    app.include_router(router)
    assets = StaticFiles(packages=[(fastapi_offline.__name__, "static")])
    app.mount("/docs/assets", assets, name="docs-assets")


@router.get("/openapi.json")
async def openapi(request: Request, send: Sender) -> Response:
    """The OpenAPI document."""
    document: OpenApiDocument = request.app.state.openapi_document
    return send(await document.made())


@router.get("/docs")
async def docs() -> Response:
    """The page."""
    return Response(
        _page("docs.html"), headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY}, media_type="text/html"
    )


@router.get("/docs/start.js")
async def docs_script() -> Response:
    """The page's own script."""
    return Response(_page("docs.js"), media_type="text/javascript")


def _page(name: str) -> bytes:
    return resources.files("service").joinpath("pages", name).read_bytes()
