"""`/docs`: Swagger UI over the OpenAPI document, with every asset from an installed package."""

from __future__ import annotations

from importlib import resources

import fastapi_offline
from fastapi import APIRouter, FastAPI
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""Swagger UI sets styles on its elements and draws icons from data URLs; scripts come from here alone."""

router = APIRouter(include_in_schema=False)


def add_docs_pages(app: FastAPI) -> None:
    """Serve `/docs` and what it loads."""
    app.include_router(router)
    assets = StaticFiles(packages=[(fastapi_offline.__name__, "static")])
    app.mount("/docs/assets", assets, name="docs-assets")


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
