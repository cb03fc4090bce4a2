"""Listening socket of the service, and the servers behind it."""

from __future__ import annotations

import contextlib
import functools
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from executors.worker import limit_memory
from service.app import create_app
from service.database.schema import migrated_database
from service.errors import CannotServe
from service.server.bounded_protocol import SECONDS_TO_KEEP_ALIVE, protocol_of
from service.server.supervision import SECONDS_TO_FINISH, supervise
from service.settings import Settings
from service.telemetry import LOG_CONFIG

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - keys to compare with


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens at an address.

    Raises CannotServe where that is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # the rest repeats the address
        raise CannotServe.of(
            "the address",
            f"cannot be used to listen ({reason})",
            value=f"{host} port {port}",
            remedy="choose another one with --host or --port",
        ) from None


def url_of(listener: socket.socket) -> str:
    """Return the URL under which a browser on this machine finds the listening socket."""
    host, port = listener.getsockname()[:2]
    host = _ANY_ADDRESS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def prepare_server(settings: Settings) -> Callable[[socket.socket], None]:
    """Return a function that serves on a socket until a signal stops it. All that can be refused is checked before.

    Raises CannotServe where the database cannot be used.
    """
    if settings.workers == 1:
        return functools.partial(_serve, create_app(settings), settings)
    migrated_database(settings.database_url).close()
    return functools.partial(supervise, functools.partial(serve_as_worker, settings), settings.workers)


def serve_as_worker(settings: Settings, listener: socket.socket) -> None:
    """Serve as one of several worker processes."""
    _serve(create_app(settings), settings, listener)


def _serve(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    limit_memory(settings.worker_memory_bytes)
    config = uvicorn.Config(
        app,
        log_config=LOG_CONFIG,
        access_log=False,
        server_header=False,
        http=protocol_of(settings, app.state.metrics),
        ws="none",
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_keep_alive=SECONDS_TO_KEEP_ALIVE,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
