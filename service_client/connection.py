"""Connection to the service: requests out, answers back as their types."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from service_client.documents import Job, Page
from service_client.errors import Unavailable, raise_for

SECONDS_TO_ANSWER = 60.0
"""The service gives up a question, or makes a job of it, after half a minute of computing and 20 s of waiting."""

_Answer = TypeVar("_Answer")


class Connection:
    """Connection to an address with a token. It stays open until the end of a `with` block.

    Args: `token`, for what stores, or everything where the service requires a login. `transport`, what carries the
    requests instead of the network.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        seconds_to_answer: float = SECONDS_TO_ANSWER,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=seconds_to_answer, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Return the answer to a request. Raises Refused or Unavailable where there is none."""
        try:
            response = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise Unavailable(f"{self._http.base_url} cannot be reached ({error or type(error).__name__})") from None
        raise_for(response)
        return response

    def _get(self, kind: type[_Answer], path: str, **query: object) -> _Answer:
        return read(kind, self._send("GET", path, params=query))

    def _post(self, kind: type[_Answer], path: str, document: object) -> _Answer:
        return read(kind, self._ask_and_wait(path, document))

    def _ask_and_wait(self, path: str, document: object, *, accept: str = "application/json") -> httpx.Response:
        """Return the answer to a question: at once, or from the job that the service makes of a long one."""
        response = self._send("POST", path, json=document, headers={"accept": accept})
        if response.status_code != httpx.codes.ACCEPTED:
            return response
        job = response.headers["location"]
        self._wait_for_job(job)
        return self._send("GET", f"{job}/result")

    def _wait_for_job(self, path: str) -> Job:
        """Wait until a job has ended, however it did, at the rate of requests that the service asks for."""
        while True:
            response = self._send("GET", path)
            job = read(Job, response)
            if job.has_ended:
                return job
            time.sleep(float(response.headers.get("retry-after", 1)))

    def _items(self, kind: type[_Answer], path: str, **query: object) -> Iterator[_Answer]:
        """Yield every item of a list, page by page."""
        page = self._get(Page[kind], path, **query)  # type: ignore[valid-type]  # a class known only when it runs
        yield from page.items
        while page.next is not None:
            page = self._get(Page[kind], path, **query, cursor=page.next)  # type: ignore[valid-type]  # as above
            yield from page.items


def path_of(*parts: object) -> str:
    """Return the path of a route under /v1.

    >>> path_of("storage-systems", "a/b", "runs")
    '/v1/storage-systems/a%2Fb/runs'
    """
    return "/".join(["/v1", *(quote(str(part), safe="") for part in parts)])


def read(kind: type[_Answer], response: httpx.Response) -> _Answer:
    """Parse the answer as its type. Fields that only a later version of the service knows are ignored."""
    return TypeAdapter(kind).validate_json(response.content, extra="ignore")
