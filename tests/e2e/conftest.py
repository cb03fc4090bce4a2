"""The service, as its own tests have it."""

from tests.service.conftest import (
    database_url,
    pytest_generate_tests,
    server,
    server_log,
    service,
    services,
    start_postgresql,
    until_all_is_tested,
)

__all__ = [
    "database_url",
    "pytest_generate_tests",
    "server",
    "server_log",
    "service",
    "services",
    "start_postgresql",
    "until_all_is_tested",
]
