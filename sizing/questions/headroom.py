"""Memory headroom of the questions that fit layers on GPUs: the type of the field in their requests, and its flag."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sizing.questions.question import Option
from sizing.training.memory_search import HEADROOM_FRACTION
from sizing.units import Fraction, OrText

MAX_HEADROOM_FRACTION = 0.9
"""With less than a tenth of the GPU left, no layout would be found and the reason would not be seen."""

HeadroomFraction = OrText[Annotated[Fraction, Field(ge=0, le=MAX_HEADROOM_FRACTION)]]

HEADROOM = Option(
    "headroom",
    "headroom_fraction",
    f"Fraction of GPU memory kept free. Default: {HEADROOM_FRACTION:g}",
    metavar="FRACTION",
)
"""Flag of a request's field `headroom_fraction`."""
