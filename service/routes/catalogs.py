"""The catalogs, with their sources. They change with the version alone, so clients may keep what they got."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import APIRouter, Header, Path
from pydantic import TypeAdapter
from starlette.responses import Response

from service.errors import NotFound
from service.http.problems import Responses, responses
from sizing.catalog_file import CatalogEntry, entry_named
from sizing.cluster.node import CatalogNode, node_catalog
from sizing.errors import InvalidInput
from sizing.model.catalog import CatalogModel, catalog, counted
from sizing.run.failure_rates import PublishedRate, published_rates
from sizing.storage.catalog import CatalogProfile, storage_profiles
from sizing.training.techniques import Technique, techniques

_Entry = TypeVar("_Entry", bound=CatalogEntry)

router = APIRouter(prefix="/v1", tags=["catalogs"])

IfNoneMatch = Annotated[
    str | None, Header(description="ETag of an earlier answer. The answer is 304 when the catalog has not changed.")
]
EntryName = Annotated[str, Path(description="Name of an entry, as in the list of the catalog.")]
NOT_MODIFIED: Responses = {304: {"description": "Not Modified"}}


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document that does not change, and its ETag."""

    content: bytes
    etag: str

    @classmethod
    def of(cls, content: bytes) -> Document:
        """The document with that content."""
        return cls(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')

    def response(self, if_none_match: str | None) -> Response:
        """The document, or 304 where the client has it."""
        headers = {"ETag": self.etag, "Cache-Control": "no-cache"}
        known = [tag.strip().removeprefix("W/") for tag in (if_none_match or "").split(",")]
        if self.etag in known or "*" in known:
            return Response(status_code=304, headers=headers)
        return Response(self.content, headers=headers, media_type="application/json")


@router.get("/models", response_model=list[CatalogModel], responses=NOT_MODIFIED, summary="List the models")
async def list_models(if_none_match: IfNoneMatch = None) -> Response:
    """Every model of the catalog, with its source and the parameters of its tensors, counted.

    `num_parameters_source` is where the count was published, if it was.
    """
    return _model_list().response(if_none_match)


@router.get("/models/{name}", response_model=CatalogModel, responses=NOT_MODIFIED | responses(404), summary="A model")
async def get_model(name: EntryName, if_none_match: IfNoneMatch = None) -> Response:
    """The model of that name, however it is spelled."""
    return Document.of(counted(_named(name, catalog())).model_dump_json().encode()).response(if_none_match)


@router.get("/nodes", response_model=list[CatalogNode], responses=NOT_MODIFIED, summary="List the node types")
async def list_nodes(if_none_match: IfNoneMatch = None) -> Response:
    """Every node type of the catalog with its figures and sources."""
    return _node_list().response(if_none_match)


@router.get("/nodes/{name}", response_model=CatalogNode, responses=NOT_MODIFIED | responses(404), summary="A node type")
async def get_node(name: EntryName, if_none_match: IfNoneMatch = None) -> Response:
    """The node type of that name, however it is spelled."""
    return Document.of(_named(name, node_catalog()).model_dump_json().encode()).response(if_none_match)


@router.get(
    "/storage-profiles",
    response_model=list[CatalogProfile],
    responses=NOT_MODIFIED,
    summary="List the published storage systems",
)
async def list_storage_profiles(if_none_match: IfNoneMatch = None) -> Response:
    """Every storage system of the catalog with its profile and source, for `storage.preset` of a scenario."""
    return _profile_list().response(if_none_match)


@router.get(
    "/storage-profiles/{name}",
    response_model=CatalogProfile,
    responses=NOT_MODIFIED | responses(404),
    summary="A published storage system",
)
async def get_storage_profile(name: EntryName, if_none_match: IfNoneMatch = None) -> Response:
    """The storage system of that name, however it is spelled."""
    return Document.of(_named(name, storage_profiles()).model_dump_json(exclude_none=True).encode()).response(
        if_none_match
    )


@router.get(
    "/failure-rates",
    response_model=list[PublishedRate],
    responses=NOT_MODIFIED,
    summary="List the published failure rates",
)
async def list_failure_rates(if_none_match: IfNoneMatch = None) -> Response:
    """Every published rate with what was counted and its source, for `reliability.preset` of a scenario."""
    return _rate_list().response(if_none_match)


@router.get(
    "/failure-rates/{name}",
    response_model=PublishedRate,
    responses=NOT_MODIFIED | responses(404),
    summary="A published failure rate",
)
async def get_failure_rate(name: EntryName, if_none_match: IfNoneMatch = None) -> Response:
    """The rate of that name, however it is spelled."""
    return Document.of(_named(name, published_rates()).model_dump_json().encode()).response(if_none_match)


@router.get(
    "/techniques", response_model=list[Technique], responses=NOT_MODIFIED, summary="List the training techniques"
)
async def list_techniques(if_none_match: IfNoneMatch = None) -> Response:
    """Schedules, activations, offload and compression, with their formulas and sources.

    `scenario` has the fields of a scenario that ask for one; those without it are listed, not computed.
    """
    return _technique_list().response(if_none_match)


@functools.cache
def _model_list() -> Document:
    models = [counted(model) for model in catalog().values()]
    return Document.of(TypeAdapter(list[CatalogModel]).dump_json(models))


@functools.cache
def _node_list() -> Document:
    return Document.of(TypeAdapter(list[CatalogNode]).dump_json(list(node_catalog().values())))


@functools.cache
def _profile_list() -> Document:
    profiles = list(storage_profiles().values())
    return Document.of(TypeAdapter(list[CatalogProfile]).dump_json(profiles, exclude_none=True))


@functools.cache
def _rate_list() -> Document:
    return Document.of(TypeAdapter(list[PublishedRate]).dump_json(list(published_rates().values())))


@functools.cache
def _technique_list() -> Document:
    return Document.of(TypeAdapter(list[Technique]).dump_json(list(techniques()), exclude_none=True))


def _named(name: str, known: Mapping[str, _Entry]) -> _Entry:
    """The entry of that name. Raises NotFound."""
    try:
        return entry_named(name, known, field="name")
    except InvalidInput as error:
        raise NotFound(error.problems) from None
