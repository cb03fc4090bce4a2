"""The catalogs, with their sources, and the comparisons with what is published.

They change with the version alone, so clients may keep what they got.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path
from pydantic import BaseModel, SerializeAsAny, TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from service.errors import NotFound
from service.http.etags import NOT_MODIFIED, Constant, Sender
from service.http.problems import described_headers, responses
from service.reports import FORMS, IN_WORDS, choose_form, contents_of
from service_client.terms import ReportForm
from sizing.catalog_file import CatalogEntry, entry_named
from sizing.cluster.node import CatalogNode, node_catalog
from sizing.errors import InvalidInput
from sizing.frameworks.registry import CatalogFramework, catalog_frameworks
from sizing.layout.formats.registry import CatalogFormat, catalog_formats
from sizing.model.catalog import CatalogModel, catalog, count_parameters, preset_of_name
from sizing.present.catalog_entries import catalog_document
from sizing.present.document import presentation_of
from sizing.questions.registry import QUESTIONS
from sizing.run.failure_rates import PublishedRate, published_rates
from sizing.scenario import FIRST_SCENARIO
from sizing.storage.catalog import CatalogProfile, storage_profiles
from sizing.training.techniques import Technique, techniques
from sizing.units import figure_text
from sizing.validation import ValidationReport, validation

_Entry = TypeVar("_Entry", bound=CatalogEntry)
_LIST = TypeAdapter(list[SerializeAsAny[BaseModel]])

router = APIRouter(prefix="/v1", tags=["catalogs"])

_QUESTIONS = {
    question.schema_name: question for entry in QUESTIONS.values() if (question := entry.question).schema_name
}
"""The questions whose fields have a schema of their own, by its name."""
_SCHEMA_NAMES = " or ".join([", ".join([*_QUESTIONS][:-1]), [*_QUESTIONS][-1]])

DEFAULT_IN_WORDS = "x-default-in-words"
"""Beside a number's `default` in a schema: the same as people read it, with its unit."""

_SCHEMA_EXAMPLES = {
    "scenario": {"summary": "Without its fields", "value": {"title": "Scenario", "examples": [FIRST_SCENARIO]}}
}

_LISTED = NOT_MODIFIED | {200: {"content": contents_of(*IN_WORDS)} | described_headers("ETag")} | responses(406)
"""Responses of a list: JSON, or in words by `Accept`."""


def catalog_form(accept: Annotated[str | None, Header(include_in_schema=False)] = None) -> ReportForm:
    """Choose the form of a list. Raises NotAcceptable."""
    return choose_form(accept, among=IN_WORDS)


CatalogForm = Annotated[ReportForm, Depends(catalog_form)]
EntryName = Annotated[str, Path(description="Name of an entry, as in the list of the catalog.")]


@router.get("/models", response_model=list[CatalogModel], responses=_LISTED, summary="List the models")
async def list_models(send: Sender, form: CatalogForm) -> Response:
    """Every model of the catalog, with its source and the parameters of its tensors, counted.

    `num_parameters_source` is where the count was published, if it was.
    """
    return send(_list_entries("models", form))


@router.get("/models/{name}", response_model=CatalogModel, responses=NOT_MODIFIED | responses(404), summary="A model")
async def get_model(name: EntryName, send: Sender) -> Response:
    """The model of that name, however it is spelled, or the one of the same shapes as a model of that name on a hub."""
    model = _find_entry(preset_of_name(name) or name, catalog())
    return send(Constant(count_parameters(model).model_dump_json().encode()))


@router.get("/nodes", response_model=list[CatalogNode], responses=_LISTED, summary="List the node types")
async def list_nodes(send: Sender, form: CatalogForm) -> Response:
    """Every node type of the catalog with its figures and sources."""
    return send(_list_entries("nodes", form))


@router.get("/nodes/{name}", response_model=CatalogNode, responses=NOT_MODIFIED | responses(404), summary="A node type")
async def get_node(name: EntryName, send: Sender) -> Response:
    """The node type of that name, however it is spelled."""
    return send(Constant(_find_entry(name, node_catalog()).model_dump_json().encode()))


@router.get(
    "/storage-profiles",
    response_model=list[CatalogProfile],
    responses=_LISTED,
    summary="List the published storage systems",
)
async def list_storage_profiles(send: Sender, form: CatalogForm) -> Response:
    """Every storage system of the catalog with its profile and source, for `storage.preset` of a scenario."""
    return send(_list_entries("storage", form))


@router.get(
    "/storage-profiles/{name}",
    response_model=CatalogProfile,
    responses=NOT_MODIFIED | responses(404),
    summary="A published storage system",
)
async def get_storage_profile(name: EntryName, send: Sender) -> Response:
    """The storage system of that name, however it is spelled."""
    return send(Constant(_find_entry(name, storage_profiles()).model_dump_json(exclude_none=True).encode()))


@router.get(
    "/failure-rates",
    response_model=list[PublishedRate],
    responses=_LISTED,
    summary="List the published failure rates",
)
async def list_failure_rates(send: Sender, form: CatalogForm) -> Response:
    """Every published rate with what was counted and its source, for `reliability.preset` of a scenario."""
    return send(_list_entries("failure-rates", form))


@router.get(
    "/failure-rates/{name}",
    response_model=PublishedRate,
    responses=NOT_MODIFIED | responses(404),
    summary="A published failure rate",
)
async def get_failure_rate(name: EntryName, send: Sender) -> Response:
    """The rate of that name, however it is spelled."""
    return send(Constant(_find_entry(name, published_rates()).model_dump_json().encode()))


@router.get("/formats", response_model=list[CatalogFormat], responses=_LISTED, summary="List the checkpoint formats")
async def list_formats(send: Sender, form: CatalogForm) -> Response:
    """Who writes which files, and who reads them back, for `checkpoint.format` of a scenario; with sources."""
    return send(_list_entries("formats", form))


@router.get(
    "/frameworks", response_model=list[CatalogFramework], responses=_LISTED, summary="List the training frameworks"
)
async def list_frameworks(send: Sender, form: CatalogForm) -> Response:
    """What each keeps in which precision, divides and ships, for `training.framework` of a scenario; with sources."""
    return send(_list_entries("frameworks", form))


@router.get("/techniques", response_model=list[Technique], responses=_LISTED, summary="List the training techniques")
async def list_techniques(send: Sender, form: CatalogForm) -> Response:
    """Schedules, activations, offload and compression, with their formulas and sources.

    `scenario` has the fields of a scenario that ask for one. `POST /v1/techniques` tries each on a scenario.
    """
    return send(_list_entries("techniques", form))


@router.get(
    "/schemas/{name}",
    response_model=dict[str, Any],
    responses={
        **NOT_MODIFIED,
        200: {"content": {"application/json": {"examples": _SCHEMA_EXAMPLES}}} | described_headers("ETag"),
        **responses(404),
    },
    summary="The fields of a question",
)
async def get_schema(
    name: Annotated[str, Path(description=f"Kind of question: {_SCHEMA_NAMES}.")], send: Sender
) -> Response:
    """A JSON Schema: what each field is, its unit and its default, also in words; and an example."""
    if name not in _QUESTIONS:
        raise NotFound.of("name", f"must be {_SCHEMA_NAMES}", value=name, remedy="give one of these")
    return send(_schema(name))


_ENTRIES: dict[str, Callable[[], Sequence[BaseModel]]] = {
    "models": lambda: [count_parameters(model) for model in catalog().values()],
    "nodes": lambda: [*node_catalog().values()],
    "storage": lambda: [*storage_profiles().values()],
    "failure-rates": lambda: [*published_rates().values()],
    "formats": catalog_formats,
    "frameworks": catalog_frameworks,
    "techniques": techniques,
}
"""Entries of each catalog, by the verb of `ckpt-size` that lists it."""
_WITHOUT_NULLS = ("storage", "techniques")
"""Catalogs whose entries have many fields that most of them leave open."""


@functools.cache
def _list_entries(verb: str, form: ReportForm) -> Constant:
    """Write a catalog as JSON, or as a document in words; made once."""
    if form == "presentation":
        words = presentation_of(catalog_document(verb)).model_dump_json()
        return Constant(words.encode(), FORMS["presentation"].media_type)
    entries = _ENTRIES[verb]()
    return Constant(_LIST.dump_json([*entries], exclude_none=verb in _WITHOUT_NULLS))


@functools.cache
def _schema(name: str) -> Constant:
    """Write the JSON Schema of a question, with its defaults in words; made once."""
    question = _QUESTIONS[name]
    schema = question.request.model_json_schema()
    for block in (schema, *schema.get("$defs", {}).values()):
        for field, description in block.get("properties", {}).items():
            default = description.get("default")
            if isinstance(default, int | float) and not isinstance(default, bool):
                description[DEFAULT_IN_WORDS] = figure_text(field, default)
    return Constant(json.dumps(schema | {"examples": [question.first_example or question.example]}).encode())


def _find_entry(name: str, entries: Mapping[str, _Entry]) -> _Entry:
    """Find the catalog entry of a name. Raises NotFound."""
    try:
        return entry_named(name, entries, field="name")
    except InvalidInput as error:
        raise NotFound(error.problems) from None


comparisons = APIRouter(prefix="/v1", tags=["validation"])


@comparisons.get(
    "/validation", response_model=ValidationReport, responses=NOT_MODIFIED, summary="Predicted against published"
)
async def get_validation(send: Sender) -> Response:
    """Every comparison with something published, in three parts, each counted.

    The parts are observations of real systems, figures of other tools, and recomputed arithmetic. Misses have a reason.
    """
    return send(await run_in_threadpool(_validate))


@functools.cache
def _validate() -> Constant:
    """Compare predictions with what is published. It takes a fifth of a second and is done once."""
    return Constant(validation().model_dump_json().encode())
