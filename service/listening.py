"""The address that the service listens on, and the servers behind it."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import tempfile
from collections.abc import Callable

import uvicorn
from uvicorn.supervisors import Multiprocess

from service.app import create_app
from service.database.schema import migrated_database
from service.errors import CannotServe
from service.logs import LOG_CONFIG
from service.metrics import WORKERS_DIRECTORY
from service.settings import Settings

SECONDS_TO_FINISH = 5
"""How long requests in progress may take after the service was told to stop."""

SECONDS_TO_REPLY = 60
"""After which a worker that gives no sign of life is replaced; on a busy machine it may take long to start."""

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


def prepared(settings: Settings) -> Callable[[socket.socket], None]:
    """What serves on a socket until a signal says to stop, with all that can be refused behind it.

    Raises CannotServe where the database cannot be used.
    """
    if settings.workers == 1:
        return functools.partial(_serve, _config(create_app(settings), settings))
    migrated_database(settings.database_url).close()
    return functools.partial(_supervise, _config(functools.partial(create_app, settings), settings))


def _config(app: Callable[..., object], settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=settings.workers > 1,
        workers=settings.workers,
        log_config=LOG_CONFIG,
        access_log=False,
        server_header=False,
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
        timeout_worker_healthcheck=SECONDS_TO_REPLY,
    )


def _serve(config: uvicorn.Config, listener: socket.socket) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


def _supervise(config: uvicorn.Config, listener: socket.socket) -> None:
    """Keep the workers alive: one that dies is replaced."""
    with tempfile.TemporaryDirectory(prefix="ckpt-serve-metrics-") as directory:
        os.environ[WORKERS_DIRECTORY] = directory  # for the workers, which count there
        Multiprocess(config, sockets=[listener]).run()
