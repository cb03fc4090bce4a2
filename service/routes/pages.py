"""The pages: `/` and those beside it, which ask nothing but REST, and `/docs`. All that they load comes from here."""

from __future__ import annotations

import asyncio
import functools
import json
from importlib import resources
from pathlib import PurePath
from typing import Annotated

import fastapi_offline
from fastapi import APIRouter, FastAPI, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from service.answers import heavy
from service.compute.pool import Compute
from service.errors import NotFound
from service.http.etags import Constant, Sender
from service.routes.runs import RESULT_EXAMPLE
from sizing.units import SECONDS_PER_DAY

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""Scripts and styles are files of this service; pictures of charts are made in the page."""

FURTHER = (
    *("storage-systems", "scenarios", "comparison", "clusters", "trade-offs", "files"),
    *("techniques", "catalogs", "validation"),
    *("audit", "shared", "login"),
)
"""The pages beside `/`, by their addresses."""

_SHARED = ("head.html", "navigation.html")
"""What all pages have in common: each stands where a page has its name as a comment."""

_MEDIA_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}

_ICON_SECONDS = SECONDS_PER_DAY
"""Browsers ask for the icon at each change of the address, and the page changes it with every answer."""

router = APIRouter(include_in_schema=False)
_charts: list[Constant] = []
"""The libraries that draw, once they are made."""


@router.get("/")
async def page(send: Sender) -> Response:
    """The page where a scenario is given and answered."""
    return send(_file("page.html"))


async def further_page(send: Sender) -> Response:
    """The shell of a further page; its script sees by the address which."""
    return send(_file("further.html"))


for _name in FURTHER:
    router.add_api_route(f"/{_name}", further_page)


@router.get("/page/vega.js")
async def vega(send: Sender, compute: Compute) -> Response:
    """Vega, Vega-Lite and Vega-Embed as the charts of reports are drawn with, made when first asked for."""
    if not _charts:
        _charts.append(Constant(await compute.run(heavy.vega_script), _MEDIA_TYPES[".js"]))
    return send(_charts[0])


@router.get("/page/demo-run.json")
async def demo_run(send: Sender) -> Response:
    """The run of which the pages make demo data, the same as in the API pages."""
    return send(Constant(json.dumps(RESULT_EXAMPLE).encode()))


@router.get("/page/{name}")
async def page_file(name: Annotated[str, Path()], send: Sender) -> Response:
    """A script or style of the page."""
    if name not in _list_names():
        raise NotFound.of("page", "has no such file", value=name, remedy="begin at /")
    return send(_file(name))


@functools.cache
def _list_names() -> frozenset[str]:
    return frozenset(file.name for file in resources.files("service").joinpath("pages", "page").iterdir())


@functools.cache
def _file(name: str) -> Constant:
    pages, kind = resources.files("service").joinpath("pages"), PurePath(name).suffix
    content = pages.joinpath("page", name).read_bytes()
    for shared in _SHARED if kind == ".html" else ():
        content = content.replace(f"<!-- {shared} -->\n".encode(), pages.joinpath(shared).read_bytes())
    policy = CONTENT_SECURITY_POLICY if kind == ".html" else ""
    return Constant(content, _MEDIA_TYPES[kind], policy, _ICON_SECONDS if kind == ".svg" else 0)


_DOCS_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""Swagger UI sets styles on its elements and draws icons from data URLs; scripts come from here alone."""

_docs_router = APIRouter(include_in_schema=False)


class OpenApiDocument:
    """OpenAPI document of an application: made in a thread when it is first requested, as it takes seconds."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._lock = asyncio.Lock()
        self._content: Constant | None = None

    async def make(self) -> Constant:
        """Make the document, or return the one that was made before."""
        async with self._lock:
            if self._content is None:
                self._content = await run_in_threadpool(lambda: Constant(json.dumps(self._app.openapi()).encode()))
            return self._content


def add_docs_pages(app: FastAPI) -> None:
    """Serve the OpenAPI document, `/docs` and what it loads."""
    app.state.openapi_document = OpenApiDocument(app)
    app.include_router(_docs_router)
    assets = StaticFiles(packages=[(fastapi_offline.__name__, "static")])
    app.mount("/docs/assets", assets, name="docs-assets")


@_docs_router.get("/openapi.json")
async def openapi(request: Request, send: Sender) -> Response:
    """The OpenAPI document."""
    document: OpenApiDocument = request.app.state.openapi_document
    return send(await document.make())


@_docs_router.get("/docs")
async def docs() -> Response:
    """The page of Swagger UI."""
    return Response(
        _page("docs.html"), headers={"Content-Security-Policy": _DOCS_CONTENT_SECURITY_POLICY}, media_type="text/html"
    )


@_docs_router.get("/docs/style.css")
async def docs_style() -> Response:
    """What the style of Swagger UI lacks."""
    return Response(_page("docs.css"), media_type="text/css")


@_docs_router.get("/docs/start.js")
async def docs_script() -> Response:
    """The script that starts Swagger UI."""
    return Response(_page("docs.js"), media_type="text/javascript")


def _page(name: str) -> bytes:
    return resources.files("service").joinpath("pages", name).read_bytes()
