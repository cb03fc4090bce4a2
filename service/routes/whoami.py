"""Whose token a request has, or who has logged in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.security import HTTPAuthorizationCredentials

from service.access.scopes import BEARER, holder_of
from service.database import Actor
from service.http.problems import responses
from service_client.documents import TokenHolder

router = APIRouter(prefix="/v1", tags=["tokens"])


@router.get("/whoami", responses=responses(401, 503), summary="Whose token this is")
def whoami(request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)] = None) -> TokenHolder:
    """Name, scope, storage systems and expiry of the token of the request, or of who has logged in."""
    return holder_document(holder_of(request))


def holder_document(by: Actor) -> TokenHolder:
    """What is told of the holder of a token, or of a person."""
    found = TokenHolder.model_validate(by.token)
    if by.session_ends_at is None:
        return found
    return found.model_copy(update={"expires_at": by.session_ends_at, "has_logged_in": True})
