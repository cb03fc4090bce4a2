"""What an optimizer keeps of a tensor, by its shape: one row per optimizer.

`published/optimizer_state_bytes.json` has every row measured as saved by torch, bitsandbytes and torchao.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Dtype = Literal["fp32", "bf16", "fp16", "fp8"]
BYTES_PER_VALUE: dict[Dtype, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""By their definitions; fp8 without its scales."""

Optimizer = Literal[
    "adam",
    "adamw",
    "adam-amsgrad",
    "sgd",
    "sgd-momentum",
    "adagrad",
    "rmsprop",
    "lion",
    "muon",
    "adafactor",
    "adafactor-momentum",
    "adam-8bit",
    "lion-8bit",
    "adam-4bit",
]

Rule = Literal["value", "factored", "8-bit", "4-bit"]
Tensors = Literal["all", "hidden-matrices", "others"]

MIN_QUANTISED_PARAMETERS = 4096
"""Smaller tensors stay fp32: bitsandbytes' `min_8bit_size`, torchao's likewise."""
_QUANTISED_BLOCK: dict[Rule, int] = {"8-bit": 256, "4-bit": 128}
_VALUES_PER_BYTE: dict[Rule, int] = {"8-bit": 1, "4-bit": 2}
_SCALE_BYTES = 4
_FACTOR_BYTES = 4
"""Values of a block share a scale in fp32; factors of Adafactor are fp32. Source: the defaults of torchao,
`torchao/optim`, and as OPTIMIZERS."""


@dataclass(frozen=True, slots=True)
class Moment:
    """`copies` statistics of a tensor, kept by `rule`, for `tensors` only.

    `value`: one value of the state's dtype per parameter. `factored`: a row and a column of fp32 instead of a
    matrix. `8-bit`, `4-bit`: quantised in blocks with an fp32 scale each; small tensors stay fp32.
    """

    rule: Rule = "value"
    copies: int = 1
    tensors: Tensors = "all"


OPTIMIZERS: dict[Optimizer, tuple[Moment, ...]] = {
    "adam": (Moment(copies=2),),
    "adamw": (Moment(copies=2),),
    "adam-amsgrad": (Moment(copies=3),),
    "sgd": (),
    "sgd-momentum": (Moment(),),
    "adagrad": (Moment(),),
    "rmsprop": (Moment(),),
    "lion": (Moment(),),
    "muon": (Moment(tensors="hidden-matrices"), Moment(copies=2, tensors="others")),
    "adafactor": (Moment("factored"),),
    "adafactor-momentum": (Moment("factored"), Moment()),
    "adam-8bit": (Moment("8-bit", copies=2),),
    "lion-8bit": (Moment("8-bit"),),
    "adam-4bit": (Moment("4-bit", copies=2),),
}
"""Muon trains the matrices of the layers, Adam the rest (Jordan et al. 2024). Sources otherwise: Kingma and Ba
2015; Chen et al. 2023 (Lion); Shazeer and Stern 2018 (Adafactor); Dettmers et al. 2022, arXiv 2110.02861, and
bitsandbytes 0.4x (block 256, min_8bit_size 4096); torchao (4 bit, block 128)."""


def moment_bytes(moment: Moment, shape: tuple[int, ...], *, dtype: Dtype, is_hidden_matrix: bool) -> int:
    """Bytes that a moment keeps of one tensor.

    value: n b; factored: 4 (rows + columns) for each matrix of the last two dimensions, else 4 n; q-bit:
    n q/8 + 4 ceil(n / block), or 4 n below 4,096 parameters. n parameters, b bytes of the dtype.
    Source: as OPTIMIZERS.

    >>> moment_bytes(Moment("8-bit"), (512, 512), dtype="fp32", is_hidden_matrix=True) / 512**2
    1.015625
    >>> moment_bytes(Moment("factored"), (512, 1024), dtype="fp32", is_hidden_matrix=True)
    6144
    """
    if moment.tensors != "all" and is_hidden_matrix != (moment.tensors == "hidden-matrices"):
        return 0
    return moment.copies * _statistic_bytes(moment.rule, shape, dtype)


def _statistic_bytes(rule: Rule, shape: tuple[int, ...], dtype: Dtype) -> int:
    parameters = math.prod(shape)
    if rule == "value":
        return parameters * BYTES_PER_VALUE[dtype]
    if rule == "factored":
        factors = math.prod(shape[:-2]) * (shape[-2] + shape[-1]) if len(shape) > 1 else parameters
        return _FACTOR_BYTES * factors
    if parameters < MIN_QUANTISED_PARAMETERS:
        return parameters * BYTES_PER_VALUE["fp32"]
    quantised = -(-parameters // _VALUES_PER_BYTE[rule])
    return quantised + _SCALE_BYTES * -(-parameters // _QUANTISED_BLOCK[rule])
