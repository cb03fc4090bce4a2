"""Network adapters of a node: published ones of the catalog, and the user's own figures for storage."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, model_validator

from sizing.errors import broken_rule
from sizing.strict_model import InputModel, StrictModel
from sizing.units import BytesPerSecond, bit_rate_text

MAX_ADAPTERS = 256
"""Max adapters of one node, eight times the most in the catalog: a number above is a typing error."""

_AS_TEXT = re.compile(r"\s*(?P<num>[0-9]{1,4})\s*[xX*×]\s*+(?P<rate>.*[A-Za-z].*)", re.DOTALL)  # noqa: RUF001  as people type it


class StorageNics(InputModel):
    """The adapters through which one node reaches its storage: number and rate each."""

    num: Annotated[int, Field(ge=1, le=MAX_ADAPTERS)] = Field(description="How many adapters one node has for storage.")
    bytes_per_second: BytesPerSecond = Field(
        description="Line rate of one of these adapters, one way, in bytes per second."
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        """Read number and rate from text such as "2 x 400 Gb/s"."""
        if not isinstance(value, str):
            return value
        match = _AS_TEXT.fullmatch(value)
        if match is None:
            raise broken_rule("is not a number of adapters with the rate of one", "write for example 2 x 400 Gb/s")
        return {"num": int(match["num"]), "bytes_per_second": match["rate"]}

    @property
    def node_bytes_per_second(self) -> float:
        """Rate of all storage adapters of a node together, one way.

        >>> StorageNics.model_validate("2 x 400 Gb/s").node_bytes_per_second
        100000000000.0
        """
        return self.num * self.bytes_per_second

    @property
    def text(self) -> str:
        """Number and rate, as text for a reader.

        >>> StorageNics(num=2, bytes_per_second="50 GB/s").text
        '2 x 400 Gb/s'
        """
        return f"{self.num} x {bit_rate_text(self.bytes_per_second)}"


class NetworkAdapters(StrictModel):
    """Adapters of one kind in a node, as published: number and rate each, or what all of them carry together."""

    num: Annotated[int, Field(ge=1, le=MAX_ADAPTERS)] | None = Field(
        None, description="How many adapters one node has. Null when the source gives the rate of all alone."
    )
    ports_each: Annotated[int, Field(ge=1, le=8)] | None = Field(
        None, description="Network ports of each adapter. Null when the source counts adapters with one port."
    )
    bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Line rate of one port, one way, in bytes per second. "
        "Null when the source gives the rate of all together, or none.",
    )
    total_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Line rate of all ports together, one way, in bytes per second, where the source gives that. "
        "Null when it gives a rate each, or none.",
    )

    @property
    def node_bytes_per_second(self) -> float | None:
        """Rate of all these adapters together, one way; None if the source does not state it.

        >>> NetworkAdapters(num=2, ports_each=2, bytes_per_second="400 Gb/s").node_bytes_per_second
        200000000000.0
        """
        if self.num is None or self.bytes_per_second is None:
            return self.total_bytes_per_second
        return self.num * (self.ports_each or 1) * self.bytes_per_second

    @property
    def text(self) -> str:
        """Published figures, as text for a reader.

        >>> NetworkAdapters(num=2, ports_each=2, bytes_per_second="400 Gb/s").text
        '2 x 2 ports of 400 Gb/s'
        >>> NetworkAdapters(num=32, total_bytes_per_second="3200 Gb/s").text, NetworkAdapters(num=2).text
        ('32 with 3200 Gb/s together', '2 of unknown rate')
        """
        num = "" if self.num is None else f"{self.num} "
        if self.total_bytes_per_second is not None:
            return f"{num}with {bit_rate_text(self.total_bytes_per_second)} together".removeprefix("with ")
        if self.bytes_per_second is None:
            return f"{num}of unknown rate"
        ports = "" if self.ports_each is None else f"{self.ports_each} ports of "
        return f"{num}x {ports}{bit_rate_text(self.bytes_per_second)}"
