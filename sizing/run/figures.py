"""A block of the report whose numbers may be arrays: one answer and a sweep fill the same fields.

A sweep shows any figure of the report by its dotted path, block by block. So a block is made of arrays too,
which pydantic cannot validate; records of arrays beside the blocks would state each of their fields twice. What blocks
are made of, such as `write.SaveTimes` and `tiers.TierLevel`, has types for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar, cast

import numpy as np
from pydantic import BaseModel

from sizing.field_paths import with_field
from sizing.strict_model import StrictModel

_Block = TypeVar("_Block", bound=BaseModel)
_NUMPY = (np.generic, np.ndarray)


class Figures(StrictModel):
    """A block of the report. `of` fills it with numbers, or with arrays that broadcast together.

    What a report says as None, an array says as NaN. A block that holds an array is not for printing.
    """

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
        block = with_field(block, path, np.asarray(values, dtype=np.float64))
    return block
