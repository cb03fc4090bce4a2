"""The address that the service listens on, and the server behind it."""

from __future__ import annotations

import contextlib
import copy
import socket

import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG

from service.errors import CannotServe

SECONDS_TO_FINISH = 5
"""How long requests in progress may take after the service was told to stop."""

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises CannotServe where that is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # the rest repeats the address
        raise CannotServe.of(
            "the address",
            f"cannot be listened on ({reason})",
            value=f"{host} port {port}",
            remedy="choose another with --host or --port",
        ) from None


def url_of(listener: socket.socket) -> str:
    """Where a browser on this machine finds what listens there."""
    host, port = listener.getsockname()[:2]
    host = _ANY_ADDRESS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Serve until a signal says to stop."""
    config = uvicorn.Config(
        app, log_config=_log_config(), server_header=False, timeout_graceful_shutdown=SECONDS_TO_FINISH
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _log_config() -> dict[str, object]:
    """Every request, and what goes wrong; not the life of the server."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["loggers"]["uvicorn.error"]["level"] = "WARNING"
    config["loggers"]["service"] = {"handlers": ["default"], "level": "WARNING", "propagate": False}
    return config
