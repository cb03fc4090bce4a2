"""Logs: one JSON object per line, with the id of the request that it is about."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request being answered, also in the threads that help with it."""

_LEVELS = {
    "service": "INFO",  # every request, and what goes wrong
    "uvicorn.error": "WARNING",  # not the life of the server
    "uvicorn.access": "CRITICAL",  # `service.middleware.observation` logs requests
    "alembic": "WARNING",
}


class JsonFormatter(logging.Formatter):
    """A log record as a line of JSON. What a call gives as `extra={"fields": {...}}` becomes fields of it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        request_id = REQUEST_ID.get()
        if request_id is not None:
            line["request_id"] = request_id
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": JsonFormatter}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {name: {"handlers": ["stderr"], "level": level, "propagate": False} for name, level in _LEVELS.items()},
}
