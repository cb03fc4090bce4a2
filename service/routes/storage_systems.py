"""Storage systems: what is measured, and what runs and calibrations belong to."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from service.access.scopes import OpenDatabase, Writer
from service.database import storage_systems
from service.database.names import Description, Slug
from service.errors import explained
from service.http.problems import already_there, responses
from service.routes.json_route import JsonRoute
from service.routes.pagination import Limit, page_of
from service_client.documents import Page, StorageSystem

router = APIRouter(prefix="/v1/storage-systems", tags=["storage systems"], route_class=JsonRoute)

SystemName = Annotated[str, Path(description="Name of a storage system, as in the list.")]

_EXAMPLE: dict[str, Any] = {"name": "scratch", "description": "Lustre, 40 OSTs, hall 2"}


class NewStorageSystem(BaseModel):
    """A storage system to keep runs of."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [_EXAMPLE]})

    name: Slug = Field(
        description="Unique name, part of its links: lower-case letters, digits, dots, underscores and hyphens."
    )
    description: Description = Field("", description="Notes such as vendor, size and place. Default: empty.")


class StorageSystemPage(Page[StorageSystem]):
    """Some of the storage systems, by name."""


class StorageSystemPageWanted(BaseModel):
    """Which page of the storage systems."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Limit = 50
    cursor: Slug | None = Field(None, description="Value of `next` on the previous page. Default: the first page.")


@router.post(
    "",
    status_code=201,
    responses=already_there(StorageSystem) | responses(400, 401, 403, 408, 409, 413, 415, 422, 503, 507),
    summary="Add a storage system",
)
def create_storage_system(
    new: Annotated[NewStorageSystem, explained(NewStorageSystem), Body()],
    by: Writer,
    database: OpenDatabase,
    response: Response,
) -> StorageSystem:
    """Add a storage system. The same again is stored once (200)."""
    row, is_new = storage_systems.save_storage_system(database, new.name, new.description, by=by)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"{router.prefix}/{row.name}"
    return StorageSystem.model_validate(row)


@router.get("", responses=responses(422, 503), summary="List the storage systems")
def list_storage_systems(
    page: Annotated[StorageSystemPageWanted, explained(StorageSystemPageWanted), Query()], database: OpenDatabase
) -> StorageSystemPage:
    """A page of the storage systems, by name."""
    rows = storage_systems.list_storage_systems(database, limit=page.limit + 1, after=page.cursor)
    return page_of(StorageSystemPage, rows, page.limit, StorageSystem.model_validate, lambda row: row.name)


@router.get("/{name}", responses=responses(404, 422, 503), summary="A storage system")
def get_storage_system(name: SystemName, database: OpenDatabase) -> StorageSystem:
    """The storage system of that name."""
    return StorageSystem.model_validate(storage_systems.storage_system(database, name))


@router.delete(
    "/{name}",
    status_code=204,
    responses=responses(401, 403, 404, 409, 422, 503, 507),
    summary="Delete a storage system that has no runs",
)
def delete_storage_system(name: SystemName, by: Writer, database: OpenDatabase) -> None:
    """Delete a storage system without runs. Needs the token that added it, or a token with scope admin."""
    storage_systems.delete_storage_system(database, name, by=by)
