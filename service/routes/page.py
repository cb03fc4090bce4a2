"""`/`: the page. Everything it loads comes from here, and it asks nothing but REST."""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import PurePath
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from service.answers import heavy
from service.compute.pool import Compute
from service.errors import NotFound
from service.http.constant import Constant, Sender
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

_MEDIA_TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}

_ICON_SECONDS = SECONDS_PER_DAY
"""Browsers ask for the icon at each change of the address, and the page changes it with every answer."""

router = APIRouter(include_in_schema=False)
_charts: list[Constant] = []
"""The libraries that draw, once they are made."""


@router.get("/")
async def page(send: Sender) -> Response:
    """The page itself."""
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


@router.get("/page/{name}")
async def page_file(name: Annotated[str, Path()], send: Sender) -> Response:
    """A script or style of the page."""
    if name not in _names():
        raise NotFound.of("page", "has no such file", value=name, remedy="begin at /")
    return send(_file(name))


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(file.name for file in resources.files("service").joinpath("pages", "page").iterdir())


@functools.cache
def _file(name: str) -> Constant:
    content = resources.files("service").joinpath("pages", "page", name).read_bytes()
    kind = PurePath(name).suffix
    policy = CONTENT_SECURITY_POLICY if kind == ".html" else ""
    return Constant(content, _MEDIA_TYPES[kind], policy, _ICON_SECONDS if kind == ".svg" else 0)
