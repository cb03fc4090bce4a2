"""What the user asks of a run: the flags of `ckpt-bench run`, validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from io_bench.engines import ENGINES
from sizing.errors import broken_rule, explain
from sizing.units import PositiveSeconds, binary_bytes_text, parse_bytes, parse_seconds

LEAST_BYTES_PER_RANK: int = parse_bytes("1 MiB")
MOST_BYTES_PER_RANK: int = parse_bytes("16 TiB")
DEFAULT_TIMEOUT = "10min"
DEFAULT_TIMEOUT_SECONDS: float = parse_seconds(DEFAULT_TIMEOUT)


def _known_engine(name: str) -> str:
    if name not in ENGINES:
        raise broken_rule("must be a known engine", f"choose {' or '.join(ENGINES)}")
    return name


def _sane_payload(num_bytes: int) -> int:
    if not LEAST_BYTES_PER_RANK <= num_bytes <= MOST_BYTES_PER_RANK:
        least, most = binary_bytes_text(LEAST_BYTES_PER_RANK), binary_bytes_text(MOST_BYTES_PER_RANK)
        raise broken_rule(f"must be from {least} to {most}", "give a size with a unit: 256MiB")
    return num_bytes


class RunOptions(BaseModel):
    """One run as it was asked for. Fields are read under the names of their flags."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Annotated[str, Field(alias="--target")]
    engine: Annotated[str, Field(alias="--engine"), AfterValidator(_known_engine)]
    bytes_per_rank: Annotated[
        int, Field(alias="--bytes-per-rank"), BeforeValidator(parse_bytes), AfterValidator(_sane_payload)
    ]
    repetitions: Annotated[int, Field(alias="--repetitions", ge=1, le=10_000)]
    output: Annotated[str | None, Field(alias="--output")]
    seed: Annotated[int | None, Field(alias="--seed", ge=0, lt=2**63)]
    timeout_seconds: Annotated[PositiveSeconds, Field(alias="--timeout", ge=5)]
    keep: Annotated[bool, Field(alias="--keep")]

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> Self:
        """The options that the flags spell. Raises InvalidInput, with one Problem per flag."""
        try:
            return cls.model_validate(flags)
        except ValidationError as error:
            raise explain(error, cls) from error
