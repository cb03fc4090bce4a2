"""An entry of `model.tensors`: equal tensors under one name."""

from __future__ import annotations

import math
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from sizing.checkpoint_files.dtypes import DTYPE_NAMES, torch_dtype
from sizing.errors import broken_rule
from sizing.model.listed.name_patterns import NamePattern, name_pattern
from sizing.model.listed.roles import Role, contradiction
from sizing.spelling import nearest
from sizing.strict_model import InputModel

MAX_ENTRIES = 5_000
"""Max entries of a list. A 1T mixture of experts takes about 30; a model whose layers all differ, some thousand."""
MAX_NAME_CHARACTERS = 2_000
"""Max length of a name: one with the numbers of some hundred layers listed one by one."""
MAX_TENSORS = 10**8
"""Max tensors of one entry, layers x experts: ten times as many as any model has."""
MAX_PARAMETERS = 10**16
"""Max parameters of one entry, as in `model.num_parameters`."""


def _known_dtype(name: str) -> str:
    known = torch_dtype(name)
    if known is None:
        close = ", ".join(nearest(name, DTYPE_NAMES, max_names=3)) or "bfloat16, float16 and float32"
        raise broken_rule("must be a dtype of torch or safetensors, such as bfloat16", f"the nearest are {close}")
    return known


class TensorEntry(InputModel):
    """Equal tensors: one name, or a pattern that stands for several."""

    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)] = Field(
        description="Name of the tensor, or of several of one shape with runs of numbers in braces, such as "
        "model.layers.{0..60}.mlp.experts.{0..383}.up_proj.weight."
    )
    shape: tuple[Annotated[int, Field(ge=0, le=10**12)], ...] = Field(
        max_length=16, description="Dimensions of one whole tensor, as torch gives them; empty for a single number."
    )
    dtype: Annotated[str, Field(max_length=40), AfterValidator(_known_dtype)] = Field(
        "bfloat16",
        description="Dtype in the list's source, such as bfloat16, BF16 or bf16. Those of integers and of packed "
        "weights are no parameters; what a checkpoint holds is decided by training, not here.",
    )
    roles: tuple[Role, ...] | None = Field(
        None,
        max_length=6,
        description="What the tensor is to a layout, in place of what the rules find. "
        "Where it stands: embedding, layer, head; how tensor ranks cut it: column, row, replicated; "
        "what else it is: expert, router, buffer, tied. "
        "Default: by rules over names and shapes; ckpt-size tensors shows them.",
    )
    parts: Annotated[int, Field(ge=1, le=10**12)] | None = Field(
        None,
        description="Equal parts that tensor ranks may hold, such as heads. "
        "Default: heads of attention where their number is known, otherwise every row or column.",
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        try:
            pattern = name_pattern(self.name)
        except ValueError as error:
            raise broken_rule(f"has the name {self.name[:80]!r}, where {error}", "correct the name") from None
        if pattern.num_names > MAX_TENSORS:
            raise broken_rule(
                f"has the name {self.name[:80]!r} of {pattern.num_names:,} tensors", f"name at most {MAX_TENSORS:,}"
            )
        if pattern.num_names * math.prod(self.shape) > MAX_PARAMETERS:
            raise broken_rule(f"{self.name[:80]!r} has more than 10^16 parameters", "correct its shape or name")
        if self.roles is not None and (wrong := contradiction(self.roles)):
            raise broken_rule(f"{self.name[:80]!r} {wrong}", "keep one of them")
        return self

    @property
    def pattern(self) -> NamePattern:
        """Name of the entry, cut at its numbers."""
        return name_pattern(self.name)

    @property
    def num_tensors(self) -> int:
        """Number of tensors that the entry stands for."""
        return self.pattern.num_names

    @property
    def num_parameters(self) -> int:
        """Number of values that all tensors of the entry hold."""
        return self.num_tensors * math.prod(self.shape)
