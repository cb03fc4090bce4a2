"""The OpenAPI document against the running service: generated requests find no server error."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from service.app import create_app
from service.database.tables import Base
from service.settings import Settings

_engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
Base.metadata.create_all(_engine)
schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(_engine, Settings()))


@schema.parametrize()
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_generated_requests_are_answered_or_refused(case: "schemathesis.Case[Any]") -> None:
    response = case.call()
    assert response.status_code < 500 or case.path == "/readyz", response.text
