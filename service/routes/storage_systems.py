"""Storage systems: what is measured, and what runs and calibrations belong to."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from service.access.scopes import OpenDatabase, Writer, systems_of
from service.database import storage_systems
from service.database.names import Description, Name, Slug
from service.database.storage_systems import SystemChange, SystemOverview
from service.database.tables import StorageSystemRow
from service.errors import explained
from service.http.etags import NOT_MODIFIED, IfNoneMatch, etag_of, is_among, require_match
from service.http.problems import creation_responses, described_headers, responses
from service.routes.json_route import JsonRoute
from service.routes.pagination import Limit, page_of
from service_client.documents import Page, StorageSystem, StorageSystemSummary
from service_client.terms import RunRetention
from sizing.strict_model import StrictModel

router = APIRouter(prefix="/v1/storage-systems", tags=["storage systems"], route_class=JsonRoute)

SystemName = Annotated[str, Path(description="Name of a storage system, as in the list.")]

MAX_OWNERS = 100
"""Max owners of one storage system: more are a team, which has a token."""
IfMatch = Annotated[str | None, Header(description="ETag of the storage system as it was seen. Required.")]

_EXAMPLE: dict[str, Any] = {"name": "scratch", "description": "Lustre, 40 OSTs, hall 2"}


class NewStorageSystem(StrictModel):
    """A storage system to keep runs of."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: Slug = Field(
        description="Unique name, part of its links: lower-case letters, digits, dots, underscores and hyphens."
    )
    description: Description = Field("", description="Notes such as vendor, size and place. Default: empty.")


class SystemPatch(StrictModel):
    """What is to change of a storage system; what is absent stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"owners": ["alice", "storage-team"]}]})

    description: Description | None = Field(
        None, description="Notes such as vendor, size and place. Default: as it is."
    )
    owners: Annotated[tuple[Name, ...], Field(max_length=MAX_OWNERS)] | None = Field(
        None,
        description="Names of the tokens that may change it and withdraw its runs; none for the one that added it. "
        "Default: as it is.",
    )
    retention: RunRetention | None = Field(
        None, description="How long its runs are kept, from the next published run on. Default: as it is."
    )


class StorageSystemPage(Page[StorageSystemSummary]):
    """Some of the storage systems, by name."""


class SystemPageQuery(StrictModel):
    """Which page of the storage systems."""

    limit: Limit = 50
    cursor: Slug | None = Field(None, description="Value of `next` on the previous page. Default: the first page.")


@router.post(
    "",
    status_code=201,
    responses=creation_responses(StorageSystem, "ETag") | responses(400, 401, 403, 408, 409, 413, 415, 422, 503, 507),
    summary="Add a storage system",
)
def create_storage_system(
    new: Annotated[NewStorageSystem, explained(NewStorageSystem), Body()],
    by: Writer,
    database: OpenDatabase,
    response: Response,
) -> StorageSystem:
    """Add a storage system. The same again is stored once (200)."""
    by.require_system(new.name)
    row, is_new = storage_systems.save_storage_system(database, new.name, new.description, by=by)
    response.status_code = 201 if is_new else 200
    response.headers["Location"] = f"{router.prefix}/{row.name}"
    return _send_with_etag(row, response)


@router.get("", responses=responses(422, 503), summary="List the storage systems")
def list_storage_systems(
    page: Annotated[SystemPageQuery, explained(SystemPageQuery), Query()], database: OpenDatabase, request: Request
) -> StorageSystemPage:
    """A page of the storage systems, by name, each with the number of its runs and its latest calibration.

    To a token limited to storage systems, these alone.
    """
    rows = storage_systems.list_overviews(database, limit=page.limit + 1, after=page.cursor, among=systems_of(request))
    return page_of(StorageSystemPage, rows, page.limit, _list_item, lambda row: row.system.name)


@router.get(
    "/{name}",
    responses=NOT_MODIFIED | responses(404, 422, 503),
    response_model=StorageSystem,
    summary="A storage system",
)
def get_storage_system(
    name: SystemName, database: OpenDatabase, response: Response, if_none_match: IfNoneMatch = None
) -> StorageSystem | Response:
    """The storage system of that name, with its ETag; 304 where the client has it."""
    system = _send_with_etag(storage_systems.storage_system(database, name), response)
    etag = response.headers["ETag"]
    return Response(status_code=304, headers={"ETag": etag}) if is_among(etag, if_none_match) else system


@router.patch(
    "/{name}",
    responses={200: described_headers("ETag"), **responses(400, 401, 403, 404, 408, 412, 413, 415, 422, 428, 503, 507)},
    summary="Change a storage system",
)
def change_storage_system(
    name: SystemName,
    patch: Annotated[SystemPatch, explained(SystemPatch), Body()],
    by: Writer,
    database: OpenDatabase,
    response: Response,
    if_match: IfMatch = None,
) -> StorageSystem:
    """Change description, owners or retention. Needs the token of an owner, or one with scope admin.

    `If-Match` has the ETag of the storage system as it was seen: a change made meanwhile is not lost (412).
    """
    change = SystemChange(description=patch.description, owners=patch.owners, retention=patch.retention)
    row = storage_systems.change_storage_system(
        database, name, change, by=by, check=lambda present: require_match(_etag(_system(present)), if_match)
    )
    return _send_with_etag(row, response)


@router.delete(
    "/{name}",
    status_code=204,
    responses=responses(401, 403, 404, 409, 422, 503, 507),
    summary="Delete a storage system that has no runs",
)
def delete_storage_system(name: SystemName, by: Writer, database: OpenDatabase) -> None:
    """Delete a storage system without runs. Needs the token of an owner, or a token with scope admin."""
    storage_systems.delete_storage_system(database, name, by=by)


def _send_with_etag(row: StorageSystemRow, response: Response) -> StorageSystem:
    system = _system(row)
    response.headers["ETag"] = _etag(system)
    return system


def _system(row: StorageSystemRow) -> StorageSystem:
    return StorageSystem.model_validate(row)


def _list_item(overview: SystemOverview) -> StorageSystemSummary:
    counts = overview._asdict()
    return StorageSystemSummary(**_system(counts.pop("system")).model_dump(), **counts)


def _etag(system: StorageSystem) -> str:
    return etag_of(system.model_dump_json().encode())
