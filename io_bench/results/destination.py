"""Destination of results: the link of a storage system, and the token for it. Apart, as flags need no network."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Self

from sizing.errors import InvalidInput

TOKEN_VARIABLE = "CKPT_TOKEN"  # noqa: S105 - its name, not its value

_LINK = re.compile(
    r"(?P<url>https?://(?P<place>[^/?#\s]+)[^?#\s]*?)/v1/storage-systems/(?P<system>[a-z0-9][a-z0-9._-]*)/?"
)


@dataclass(frozen=True, slots=True)
class Destination:
    """A storage system of a service."""

    url: str
    system: str

    @classmethod
    def of(cls, link: str, flag: str) -> Self:
        """Read the destination from a link.

        Raises InvalidInput where it names none, or holds a password, which would stand in the list of processes.

        >>> Destination.of("http://sizing:8000/v1/storage-systems/scratch", "--to")
        Destination(url='http://sizing:8000', system='scratch')
        """
        match = _LINK.fullmatch(link)
        if match is None or "@" in match["place"]:
            raise InvalidInput.of(
                flag,
                "must be the link of a storage system",
                value=None if "@" in link else link,
                remedy="give http://HOST:8000/v1/storage-systems/NAME, and set the token in " + TOKEN_VARIABLE,
            )
        return cls(match["url"], match["system"])

    @property
    def link(self) -> str:
        """URL of the storage system."""
        return f"{self.url}/v1/storage-systems/{self.system}"


def token_of_environment() -> str | None:
    """Read the token from the environment, as everybody on the machine can read flags."""
    return os.environ.get(TOKEN_VARIABLE) or None
