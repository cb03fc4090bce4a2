"""A real OpenID Connect provider: Canaille, in a virtual environment of its own, as `scripts/test` makes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.testbed.processes import Unavailable, running

PYTHON = Path(__file__).parents[2] / ".venv-oidc" / "bin" / "python"


@contextmanager
def canaille(port: int, *, service: str, log: Path) -> Iterator[str]:
    """The issuer, for people who log in to the service at an address. Raises Unavailable where it is not installed."""
    if not PYTHON.exists():
        raise Unavailable("Canaille is not installed in .venv-oidc")
    issuer = f"http://127.0.0.1:{port}/"

    def is_ready() -> bool:
        try:
            return httpx.get(f"{issuer}.well-known/openid-configuration").is_success
        except httpx.TransportError:
            return False

    command: list[str | Path] = [PYTHON, Path(__file__).with_name("canaille_provider.py"), str(port), service]
    with running(command, log=log, is_ready=is_ready):
        yield issuer
