"""Whose token a request has."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.security import HTTPAuthorizationCredentials

from service.access.scopes import BEARER, holder_of
from service.http.problems import responses
from service_client.documents import TokenHolder

router = APIRouter(prefix="/v1", tags=["tokens"])


@router.get("/whoami", responses=responses(401, 503), summary="Whose token this is")
def whoami(request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)] = None) -> TokenHolder:
    """Name, scope, storage systems and expiry of the token of the request, whatever its scope."""
    return TokenHolder.model_validate(holder_of(request).token)
