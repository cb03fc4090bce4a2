"""A block of the report whose numbers may be arrays: one answer and a sweep fill the same fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar, cast

import numpy as np
from pydantic import BaseModel, ConfigDict

_Block = TypeVar("_Block", bound=BaseModel)
_NUMPY = (np.generic, np.ndarray)


class Figures(BaseModel):
    """A block of the report. `of` fills it with numbers, or with arrays that broadcast together.

    What a report says as None, an array says as NaN. Arrays are not validated, and a block that holds one is not
    for printing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, **values: Any) -> Self:
        """The block of these values.

        >>> class Area(Figures):
        ...     square_meters: float | None
        >>> Area.of(square_meters=np.float64("nan")), Area.of(square_meters=np.array([1.0, np.nan])).square_meters
        (Area(square_meters=None), array([ 1., nan]))
        """
        plain = {}
        for name, value in values.items():
            number = value
            if isinstance(value, _NUMPY):
                if value.ndim:
                    return cast("Self", cls.model_construct(**values))
                number = value.item()
            plain[name] = None if number != number else number  # noqa: PLR0124  only NaN differs from itself
        return cls.model_validate(plain)


def with_arrays(block: _Block, arrays: Mapping[str, Any]) -> _Block:
    """A Scenario, or a block of one, with arrays set at dotted paths: `storage.profile.write_bytes_per_second`.

    The blocks on the path must be there. The arrays are not validated; whole numbers become floats, which hold 10^21.

    >>> from sizing.run.retention import Retention
    >>> with_arrays(Retention(), {"keep_last": np.array([1, 2])}).keep_last
    array([1., 2.])
    """
    for path, values in arrays.items():
        block = _with(block, path.split("."), np.asarray(values, dtype=np.float64))
    return block


def _with(block: Any, path: list[str], values: Any) -> Any:
    name, *rest = path
    if isinstance(block, tuple):
        index = int(name)
        return (*block[:index], _with(block[index], rest, values), *block[index + 1 :])
    return block.model_copy(update={name: _with(getattr(block, name), rest, values) if rest else values})
