"""`/v1/models` and `/v1/nodes`: the catalogs, each entry with its source."""

from __future__ import annotations

import functools
import hashlib
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Response
from pydantic import BaseModel, ConfigDict, TypeAdapter

from service.problems import not_found
from sizing.cluster.node import CatalogNode, node_catalog
from sizing.model import catalog, num_parameters
from sizing.model.architecture import Architecture
from sizing.model.inventory import inventory_of

router = APIRouter(tags=["catalogs"])

IfNoneMatch = Annotated[str | None, Header()]


class ListedModel(BaseModel):
    """A model of the catalog with its counted parameters."""

    model_config = ConfigDict(frozen=True)

    name: str
    num_parameters: int
    architecture: Architecture
    source: str


@router.get("/v1/models", response_model=list[ListedModel])
def models(if_none_match: IfNoneMatch = None) -> Response:
    """Every model of the catalog."""
    return _tagged(_models_json(), if_none_match)


@router.get("/v1/models/{name}")
def model(name: str) -> ListedModel:
    """One model of the catalog."""
    found = next((listed for listed in _models() if listed.name == name), None)
    if found is None:
        raise not_found("model", name)
    return found


@router.get("/v1/nodes", response_model=list[CatalogNode])
def nodes(if_none_match: IfNoneMatch = None) -> Response:
    """Every node type of the catalog."""
    return _tagged(_nodes_json(), if_none_match)


@router.get("/v1/nodes/{name}")
def node(name: str) -> CatalogNode:
    """One node type of the catalog."""
    found = node_catalog().get(name)
    if found is None:
        raise not_found("node type", name)
    return found


@functools.cache
def _models() -> tuple[ListedModel, ...]:
    return tuple(
        ListedModel(
            name=listed.name,
            num_parameters=num_parameters(inventory_of(listed.architecture)),
            architecture=listed.architecture,
            source=listed.source,
        )
        for listed in catalog().values()
    )


@functools.cache
def _models_json() -> bytes:
    return TypeAdapter(list[ListedModel]).dump_json(list(_models()))


@functools.cache
def _nodes_json() -> bytes:
    return TypeAdapter(list[CatalogNode]).dump_json(list(node_catalog().values()))


def _tagged(content: bytes, if_none_match: str | None) -> Response:
    """The content with its ETag; nothing but that where the client has it already."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    if if_none_match == tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})
    return Response(content, media_type="application/json", headers={"ETag": tag})
