"""Sharing links as dependencies of routes: which scenario the key of a request reads."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param

from service.access.scopes import OpenDatabase
from service.database.sharing_links import scenario_shared_by
from service.errors import NotAuthenticated

_LINK = HTTPBearer(
    auto_error=False, scheme_name="SharingLink", description="The key of a sharing link of a saved scenario"
)


def shared_id(
    request: Request,
    database: OpenDatabase,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(_LINK)] = None,
) -> UUID:
    """The id of the scenario that the key of the request reads. Raises NotAuthenticated."""
    scheme, key = get_authorization_scheme_param(request.headers.get("authorization"))
    found = scenario_shared_by(database, key) if scheme.lower() == "bearer" else None
    if found is None:
        raise NotAuthenticated.of(
            "authorization",
            "must be the key of a sharing link that has not ended and was not withdrawn",
            value=None,
            remedy="ask for a new link who gave you this one",
        )
    return found


SharedId = Annotated[UUID, Depends(shared_id)]
