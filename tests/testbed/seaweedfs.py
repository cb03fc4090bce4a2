"""SeaweedFS, a real object store that speaks S3: one process with everything in it."""

from __future__ import annotations

import http.client
import json
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed.ports import free_port
from tests.testbed.processes import need, running

_WEED = Path(sys.executable).with_name("weed")
ACCESS_KEY, SECRET_KEY = "benchkey", "benchsecret"
_IDENTITY = {
    "name": "bench",
    "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
    "actions": ["Admin", "Read", "Write", "List", "Tagging"],
}


@dataclass
class ObjectServer:
    """A server on ports of its own, which keeps its objects when it is killed and started again."""

    directory: Path
    ports: dict[str, int]
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def environment(self) -> dict[str, str]:
        """The standard AWS configuration that leads to it."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.ports['s3']}",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        }

    def start(self) -> None:
        """Start the server and wait until it takes objects."""
        log = self.directory / "weed.log"
        self._process = self._stack.enter_context(running(self._command(), log=log, is_ready=self._is_ready))

    def kill(self) -> None:
        """Kill the server, as a crash would."""
        self._process.kill()
        self._stack.close()

    def _command(self) -> list[str]:
        options = {
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "dir": self.directory / "data",
            "master.port": self.ports["master"],
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 64,
            "volume.port": self.ports["volume"],
            "volume.max": 50,
            "filer": "true",
            "filer.port": self.ports["filer"],
            "filer.localSocket": self.directory / "filer.sock",
            "s3": "true",
            "s3.port": self.ports["s3"],
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.localSocket": self.directory / "s3.sock",
            "s3.config": self.directory / "s3.json",
        }
        flags = [f"-{name}={value}" for name, value in options.items()]
        return [str(_WEED), f"-logdir={self.directory}", "server", *flags]

    def _is_ready(self) -> bool:
        status = _answer(f"http://127.0.0.1:{self.ports['s3']}/status")
        return status is not None and "fid" in (_answer(f"http://127.0.0.1:{self.ports['master']}/dir/assign") or "")


@contextmanager
def seaweedfs(directory: Path) -> Iterator[ObjectServer]:
    """A server that keeps its objects in `directory`, which it empties at the end.

    Raises Unavailable where it is not installed, NotReady where it does not start.
    """
    need(str(_WEED))
    (directory / "data").mkdir()
    (directory / "s3.json").write_text(json.dumps({"identities": [_IDENTITY]}))
    # It takes the ports 10,000 above for gRPC.
    server = ObjectServer(directory, {each: free_port(beside=10_000) for each in ("s3", "master", "volume", "filer")})
    server.start()
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(directory / "data")


def _answer(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - our own server
            return str(answer.read().decode())
    except (OSError, http.client.HTTPException):
        return None
