"""The catalogs, with their sources. They change with the version alone, so clients may keep what they got."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Header, Path
from pydantic import BaseModel, TypeAdapter
from starlette.responses import Response

from service.errors import NotFound
from service.http.constant import NOT_MODIFIED, Constant, Sender
from service.http.problems import responses
from service.reports.forms import FORMS, IN_WORDS, contents_of, form_wanted
from service_client.terms import ReportForm
from sizing.catalog_file import CatalogEntry, entry_named
from sizing.cluster.node import CatalogNode, node_catalog
from sizing.errors import InvalidInput
from sizing.explore.clusters.cluster_scenario import REFERENCE_CLUSTER, ClusterScenario
from sizing.explore.decisions.decision_request import REFERENCE_DECISION, DecisionRequest
from sizing.explore.sweeps.sweep_request import REFERENCE_SWEEP, SweepRequest
from sizing.layout.formats.catalog import CatalogFormat, catalog_formats
from sizing.model.catalog import CatalogModel, catalog, counted
from sizing.reports.document import catalog_document
from sizing.reports.presentation import presentation_of
from sizing.run.failure_rates import PublishedRate, published_rates
from sizing.scenario import FIRST_SCENARIO, Scenario
from sizing.storage.catalog import CatalogProfile, storage_profiles
from sizing.training.techniques.catalog import Technique, techniques
from sizing.units import figure_text

_Entry = TypeVar("_Entry", bound=CatalogEntry)

router = APIRouter(prefix="/v1", tags=["catalogs"])

_QUESTIONS: dict[str, tuple[type[BaseModel], Mapping[str, Any]]] = {
    "scenario": (Scenario, FIRST_SCENARIO),
    "decision": (DecisionRequest, REFERENCE_DECISION),
    "cluster": (ClusterScenario, REFERENCE_CLUSTER),
    "sweep": (SweepRequest, REFERENCE_SWEEP),
}
"""The questions whose fields have a schema of their own, each with an example."""

DEFAULT_IN_WORDS = "x-default-in-words"
"""Beside a number's `default` in a schema: the same as people read it, with its unit."""

_SCHEMA_EXAMPLES = {
    "scenario": {"summary": "Without its fields", "value": {"title": "Scenario", "examples": [FIRST_SCENARIO]}}
}

_LISTED = {200: {"content": contents_of(*IN_WORDS)}, **NOT_MODIFIED, **responses(406)}
"""Of a list: JSON, or in words by `Accept`."""


def catalog_form(accept: Annotated[str | None, Header(include_in_schema=False)] = None) -> ReportForm:
    """In which form a list is wanted. Raises NotAcceptable."""
    return form_wanted(accept, among=IN_WORDS)


CatalogForm = Annotated[ReportForm, Depends(catalog_form)]
EntryName = Annotated[str, Path(description="Name of an entry, as in the list of the catalog.")]


@router.get("/models", response_model=list[CatalogModel], responses=_LISTED, summary="List the models")
async def list_models(send: Sender, form: CatalogForm) -> Response:
    """Every model of the catalog, with its source and the parameters of its tensors, counted.

    `num_parameters_source` is where the count was published, if it was.
    """
    return send(_model_list() if form == "json" else _in_words("models"))


@router.get("/models/{name}", response_model=CatalogModel, responses=NOT_MODIFIED | responses(404), summary="A model")
async def get_model(name: EntryName, send: Sender) -> Response:
    """The model of that name, however it is spelled."""
    return send(Constant(counted(_named(name, catalog())).model_dump_json().encode()))


@router.get("/nodes", response_model=list[CatalogNode], responses=_LISTED, summary="List the node types")
async def list_nodes(send: Sender, form: CatalogForm) -> Response:
    """Every node type of the catalog with its figures and sources."""
    return send(_node_list() if form == "json" else _in_words("nodes"))


@router.get("/nodes/{name}", response_model=CatalogNode, responses=NOT_MODIFIED | responses(404), summary="A node type")
async def get_node(name: EntryName, send: Sender) -> Response:
    """The node type of that name, however it is spelled."""
    return send(Constant(_named(name, node_catalog()).model_dump_json().encode()))


@router.get(
    "/storage-profiles",
    response_model=list[CatalogProfile],
    responses=_LISTED,
    summary="List the published storage systems",
)
async def list_storage_profiles(send: Sender, form: CatalogForm) -> Response:
    """Every storage system of the catalog with its profile and source, for `storage.preset` of a scenario."""
    return send(_profile_list() if form == "json" else _in_words("storage"))


@router.get(
    "/storage-profiles/{name}",
    response_model=CatalogProfile,
    responses=NOT_MODIFIED | responses(404),
    summary="A published storage system",
)
async def get_storage_profile(name: EntryName, send: Sender) -> Response:
    """The storage system of that name, however it is spelled."""
    return send(Constant(_named(name, storage_profiles()).model_dump_json(exclude_none=True).encode()))


@router.get(
    "/failure-rates",
    response_model=list[PublishedRate],
    responses=_LISTED,
    summary="List the published failure rates",
)
async def list_failure_rates(send: Sender, form: CatalogForm) -> Response:
    """Every published rate with what was counted and its source, for `reliability.preset` of a scenario."""
    return send(_rate_list() if form == "json" else _in_words("failure-rates"))


@router.get(
    "/failure-rates/{name}",
    response_model=PublishedRate,
    responses=NOT_MODIFIED | responses(404),
    summary="A published failure rate",
)
async def get_failure_rate(name: EntryName, send: Sender) -> Response:
    """The rate of that name, however it is spelled."""
    return send(Constant(_named(name, published_rates()).model_dump_json().encode()))


@router.get("/formats", response_model=list[CatalogFormat], responses=_LISTED, summary="List the checkpoint formats")
async def list_formats(send: Sender, form: CatalogForm) -> Response:
    """Who writes which files, and who reads them back, for `checkpoint.format` of a scenario; with sources."""
    return send(_format_list() if form == "json" else _in_words("formats"))


@router.get("/techniques", response_model=list[Technique], responses=_LISTED, summary="List the training techniques")
async def list_techniques(send: Sender, form: CatalogForm) -> Response:
    """Schedules, activations, offload and compression, with their formulas and sources.

    `scenario` has the fields of a scenario that ask for one. `POST /v1/techniques` tries each on a scenario.
    """
    return send(_technique_list() if form == "json" else _in_words("techniques"))


@router.get(
    "/schemas/{name}",
    response_model=dict[str, Any],
    responses={
        200: {"content": {"application/json": {"examples": _SCHEMA_EXAMPLES}}},
        **NOT_MODIFIED,
        **responses(404),
    },
    summary="The fields of a question",
)
async def get_schema(
    name: Annotated[str, Path(description="Kind of question: scenario, decision, cluster or sweep.")], send: Sender
) -> Response:
    """A JSON Schema: what each field is, its unit and its default, also in words; and an example."""
    if name not in _QUESTIONS:
        raise NotFound.of(
            "name", "must be scenario, decision, cluster or sweep", value=name, remedy="give one of these"
        )
    return send(_schema(name))


@functools.cache
def _in_words(verb: str) -> Constant:
    words = presentation_of(catalog_document(verb)).model_dump_json()
    return Constant(words.encode(), FORMS["presentation"].media_type)


@functools.cache
def _schema(name: str) -> Constant:
    model, example = _QUESTIONS[name]
    schema = model.model_json_schema()
    for block in (schema, *schema.get("$defs", {}).values()):
        for field, said in block.get("properties", {}).items():
            if isinstance(said.get("default"), int | float) and not isinstance(said["default"], bool):
                said[DEFAULT_IN_WORDS] = figure_text(field, said["default"])
    return Constant(json.dumps(schema | {"examples": [example]}).encode())


@functools.cache
def _model_list() -> Constant:
    models = [counted(model) for model in catalog().values()]
    return Constant(TypeAdapter(list[CatalogModel]).dump_json(models))


@functools.cache
def _node_list() -> Constant:
    return Constant(TypeAdapter(list[CatalogNode]).dump_json(list(node_catalog().values())))


@functools.cache
def _profile_list() -> Constant:
    profiles = list(storage_profiles().values())
    return Constant(TypeAdapter(list[CatalogProfile]).dump_json(profiles, exclude_none=True))


@functools.cache
def _rate_list() -> Constant:
    return Constant(TypeAdapter(list[PublishedRate]).dump_json(list(published_rates().values())))


@functools.cache
def _format_list() -> Constant:
    return Constant(TypeAdapter(list[CatalogFormat]).dump_json(catalog_formats()))


@functools.cache
def _technique_list() -> Constant:
    return Constant(TypeAdapter(list[Technique]).dump_json(list(techniques()), exclude_none=True))


def _named(name: str, known: Mapping[str, _Entry]) -> _Entry:
    """The entry of that name. Raises NotFound."""
    try:
        return entry_named(name, known, field="name")
    except InvalidInput as error:
        raise NotFound(error.problems) from None
