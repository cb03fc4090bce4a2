"""The routes that there are: all are documented, and the tests that walk over them name one that lacks something."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from service import routes
from service.app import create_app
from service.routes.pages import FURTHER
from service.settings import Settings
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.service import toy_route
from tests.service.test_client import never_asked
from tests.service.test_documents import GUIDE, not_in_the_guide
from tests.service.test_examples import without_example

PAGES = {
    *(("GET", path) for path in ("/", "/page/{name}", "/page/vega.js", "/page/demo-run.json")),
    *(("GET", path) for path in ("/docs", "/docs/start.js", "/docs/style.css", "/openapi.json")),
    *(("GET", f"/{name}") for name in FURTHER),
    *((method, "/session") for method in ("GET", "POST", "DELETE")),
    ("POST", "/session/login"),
}
"""For people with a browser, and the document itself; programs need no document of them."""

TOY = ("POST", "/v1/checkpoints")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    """The application with the route that docs/extending.md adds."""
    made = create_app(Settings(database_url=f"sqlite:///{tmp_path_factory.mktemp('routes')}/x.db"))
    made.include_router(toy_route.router)
    with TestClient(made):
        yield made


@pytest.fixture(scope="module")
def document(app: FastAPI) -> dict[str, Any]:
    return app.openapi()


def test_the_document_has_every_route_of_every_module_but_the_pages(document: dict[str, Any]) -> None:
    written = {
        (method, route.path)
        for module in modules()
        for router in vars(module).values()
        if isinstance(router, APIRouter)
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    documented = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}
    assert written - documented == PAGES
    assert documented - written == {TOY}


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(routes.__path__, f"{routes.__name__}."):
        yield importlib.import_module(found.name)


def test_a_route_that_is_written_alone_is_named_by_each_test_that_walks_over_them(document: dict[str, Any]) -> None:
    assert TOY in never_asked(document, asked=set())
    assert not_in_the_guide(document, GUIDE) == [TOY]
    assert without_example(document) == [(*TOY, "200")]


def test_the_page_shows_this_route_and_what_it_asks_is_answered(app: FastAPI) -> None:
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
    assert Path(toy_route.__file__).read_text() in page
    answered = TestClient(app).post(TOY[1], json=REFERENCE_SCENARIO)
    assert answered.json() == answer(scenario_from(REFERENCE_SCENARIO)).checkpoint.model_dump(mode="json")
