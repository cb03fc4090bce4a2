"""The bytes that an optimizer keeps of a tensor, from its shape: one row per optimizer.

`published/optimizer_state_bytes.json` has every row measured as saved by torch, bitsandbytes and torchao.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

from sizing.errors import broken_rule
from sizing.model.inventory import TensorRole
from sizing.spelling import known_spelling, nearest

Dtype = Literal["fp32", "bf16", "fp16", "fp8"]
BYTES_PER_VALUE: dict[Dtype, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
"""Bytes of a value, by definition; fp8 without its scales."""

Optimizer = Literal[
    "adam",
    "adamw",
    "adam-amsgrad",
    "ademamix",
    "sgd",
    "sgd-momentum",
    "adagrad",
    "rowwise-adagrad",
    "rmsprop",
    "lion",
    "muon",
    "adafactor",
    "adafactor-momentum",
    "adam-8bit",
    "ademamix-8bit",
    "lion-8bit",
    "adam-4bit",
    "adam-fp8",
    "schedule-free-adamw",
    "schedule-free-sgd",
    "soap",
    "shampoo",
]

Rule = Literal["value", "rows", "factored", "8-bit", "4-bit", "grams", "block-factors", "scaled"]
Tensors = Literal["all", "hidden-matrices", "others"]

MIN_QUANTISED_PARAMETERS = 4096
"""Min size of a quantised tensor. Smaller ones stay fp32: bitsandbytes' `min_8bit_size`, likewise in torchao."""
_QUANTISED_BLOCK: dict[Rule, int] = {"8-bit": 256, "4-bit": 128}
_VALUES_PER_BYTE: dict[Rule, int] = {"8-bit": 1, "4-bit": 2}
_SCALE_BYTES = 4
_FACTOR_BYTES = 4
"""Values of a block share a scale in fp32; factors of Adafactor are fp32. Source: the defaults of torchao,
`torchao/optim`, and as OPTIMIZERS."""

_MAX_GRAM_DIMENSION = 10_000
"""Max side of a matrix that has a Gram matrix: `max_precond_dim` of SOAP, which leaves out a vocabulary."""
_SHAMPOO_BLOCK = 1024
"""Max side of a block: `max_preconditioner_dim` of Distributed Shampoo."""

WHOLE_MATRICES: dict[Optimizer, str] = {
    "muon": "the momentum is divided as other moments are, as FSDP2 does; Megatron's layer-wise optimizer deals whole "
    "matrices over data ranks, so there the largest rank holds more, in the same total",
    "soap": "its framework decides: Megatron deals whole matrices over data ranks; DeepSpeed, whose ZeRO cuts flat "
    "buffers, is not documented",
    "shampoo": "blocks of what a rank holds, as distributed_shampoo makes of FSDP2's shards; others are not documented",
}
"""Optimizers whose step takes a matrix as a whole, and how ranks then divide what is kept of it. Source: Megatron-LM,
core/optimizer/layer_wise_optimizer.py; distributed_shampoo/distributor/shampoo_fully_shard_distributor.py."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Statistics that an optimizer keeps of a tensor: `copies` of them, by `rule`, for `tensors` only.

    `value`: one value of the state's dtype per parameter. `rows`: one of fp32 for each row of a matrix. `factored`: a
    row and a column of fp32 instead of a matrix. `8-bit`, `4-bit`: quantised in blocks with an fp32 scale each; small
    tensors stay fp32. `grams`: a square fp32 matrix for each side of a matrix. `block-factors`: two packed fp32
    triangles for each side of each block. `scaled`: not an optimizer's statistic, but weights as `scaled_dtypes` counts
    them. `keeps_embeddings`: embedding tables stay fp32.
    """

    rule: Rule = "value"
    copies: int = 1
    tensors: Tensors = "all"
    keeps_embeddings: bool = False


OPTIMIZERS: dict[Optimizer, tuple[Moment, ...]] = {
    "adam": (Moment(copies=2),),
    "adamw": (Moment(copies=2),),
    "adam-amsgrad": (Moment(copies=3),),
    "ademamix": (Moment(copies=3),),
    "sgd": (),
    "sgd-momentum": (Moment(),),
    "adagrad": (Moment(),),
    "rowwise-adagrad": (Moment("rows"),),
    "rmsprop": (Moment(),),
    "lion": (Moment(),),
    "muon": (Moment(tensors="hidden-matrices"), Moment(copies=2, tensors="others")),
    "adafactor": (Moment("factored"),),
    "adafactor-momentum": (Moment("factored"), Moment()),
    "adam-8bit": (Moment("8-bit", copies=2, keeps_embeddings=True),),
    "ademamix-8bit": (Moment("8-bit", copies=3, keeps_embeddings=True),),
    "lion-8bit": (Moment("8-bit", keeps_embeddings=True),),
    "adam-4bit": (Moment("4-bit", copies=2),),
    "adam-fp8": (Moment("8-bit", copies=2),),
    "schedule-free-adamw": (Moment(copies=2),),
    "schedule-free-sgd": (Moment(),),
    "soap": (Moment(copies=2), Moment("grams", copies=2)),
    "shampoo": (Moment(copies=2), Moment("block-factors")),
}
"""Muon trains the matrices of the layers, Adam the rest (Jordan et al. 2024). Schedule-free keeps the iterate z in the
place of the momentum (Defazio et al. 2024, arXiv 2405.15682). SOAP keeps Adam's moments, and of each side of a matrix
its Gram matrix and eigenvectors (Vyas et al. 2024, arXiv 2409.11321). Shampoo as distributed_shampoo saves it: filtered
gradient and Adam's second moment for grafting, and of each side of each block a factor and its inverse root (Shi et al.
2023, arXiv 2309.06497). AdEMAMix has a fast and a slow mean of gradients beside Adam's second moment (Pagliardini et
al. 2024, arXiv 2409.03137; bitsandbytes, optim/ademamix.py, state1 of two means, state2). Row-wise Adagrad keeps the
mean of squared gradients of each row, in fp32 whatever the table (FBGEMM, EXACT_ROWWISE_ADAGRAD; TorchRec 1.9,
optim/rowwise_adagrad.py, which takes matrices alone: vectors are counted as Adagrad's). Sources otherwise: Kingma
and Ba 2015; Chen et al. 2023 (Lion); Shazeer and Stern 2018 (Adafactor); Dettmers et al. 2022, arXiv 2110.02861, and
bitsandbytes 0.4x (block 256, min_8bit_size 4096), whose StableEmbedding keeps 32 bits, as transformers' Trainer has
every embedding keep them (trainer.py, register_module_override); torchao (4 bit, block 128; fp8, block 256), which
quantises embeddings too."""


_OF_IMPLEMENTATIONS = re.compile(
    r"[-_]?(torch|fused|hf|apex|xla|npu|foreach|cpu|deepspeed|distributed|paged|bnb|32bit|optimi|ao)(?=[-_]|$)"
)
"""Words of an optimizer's name that say how a step is computed, or where, and not what is kept. Source: transformers
5.23, training_args.py, OptimizerNames; NeMo, distributed_fused_adam."""
_ELSEWHERE: dict[str, Optimizer] = {
    "onebitadam": "adam",
    "muon_adamw": "muon",
    "adamw_8bit": "adam-8bit",
    "adamw_4bit": "adam-4bit",
    "adamw_fp8": "adam-fp8",
    "fusedadam": "adam",
    "cpuadam": "adam",
    "deepspeedcpuadam": "adam",
    "fusedadamw": "adamw",
    "rowwiseadagrad": "rowwise-adagrad",
    "row_wise_adagrad": "rowwise-adagrad",
    "exact_rowwise_adagrad": "rowwise-adagrad",
    "exact_row_wise_adagrad": "rowwise-adagrad",
}


def optimizer_named(name: str) -> Optimizer | None:
    """Return the optimizer that a framework's config means by a name; None for one that is not known.

    >>> optimizer_named("adamw_torch_fused"), optimizer_named("paged_adamw_8bit"), optimizer_named("galore_adamw")
    ('adamw', 'adam-8bit', None)
    """
    plain = _OF_IMPLEMENTATIONS.sub("", name.strip().lower()).strip("_-")
    return cast("Optimizer | None", known_spelling(_ELSEWHERE.get(plain.replace("-", "_"), plain), OPTIMIZERS))


def spelled_optimizer(value: object) -> object:
    """Return the optimizer of the catalog for any spelling of it. A near name is proposed with what it keeps.

    Raises PydanticCustomError for a name that is not known.
    """
    if not isinstance(value, str):
        return value
    named = optimizer_named(value)
    if named is None:
        close, shape = cast("list[Optimizer]", nearest(value, OPTIMIZERS, max_names=1)), (1024, 1024)
        kept = [
            sum(moment_bytes(each, shape, dtype="fp32", role="hidden-matrix") for each in OPTIMIZERS[name])
            for name in close
        ]
        remedies = [
            f"the nearest, {name}, keeps {num_bytes / math.prod(shape):.3g} bytes of each value"
            for name, num_bytes in zip(close, kept, strict=True)
        ]
        remedies.append(f"choose what keeps as much as yours of {', '.join(OPTIMIZERS)}")
        raise broken_rule("must be a known name", "; ".join(remedies))
    return named


def moment_bytes(moment: Moment, shape: tuple[int, ...], *, dtype: Dtype, role: TensorRole) -> int:
    """Count the bytes that a moment keeps of one tensor.

    value: n b; rows: 4 for each row of the last two dimensions, 4 n of a vector; factored: 4 (rows + columns) for each
    matrix of the last two dimensions, else 4 n; q-bit: n q/8 + 4 ceil(n / block), or 4 n below 4,096 parameters; grams:
    4 d^2 for each side d up to 10,000 of a matrix; block-factors: 2 x 4 d (d + 1)/2 for each side d of each block,
    whose sides are 1,024 at most, vectors cut too.
    n parameters, b bytes of the dtype. Embeddings that are kept have 4 n.
    Source: as OPTIMIZERS.

    >>> moment_bytes(Moment("8-bit"), (512, 512), dtype="fp32", role="hidden-matrix") / 512**2
    1.015625
    >>> moment_bytes(Moment("factored"), (512, 1024), dtype="fp32", role="hidden-matrix")
    6144
    >>> moment_bytes(Moment("grams"), (512, 32_000), dtype="fp32", role="other") == 4 * 512**2
    True
    >>> moment_bytes(Moment("block-factors"), (3000, 1500), dtype="fp32", role="hidden-matrix")
    39371472
    """
    if moment.tensors != "all" and (role == "hidden-matrix") != (moment.tensors == "hidden-matrices"):
        return 0
    if moment.keeps_embeddings and role == "embedding":
        return moment.copies * BYTES_PER_VALUE["fp32"] * math.prod(shape)
    rule, parameters = moment.rule, math.prod(shape)
    if rule == "value":
        num_bytes = parameters * BYTES_PER_VALUE[dtype]
    elif rule in _OF_SIDES:
        num_bytes = _FACTOR_BYTES * math.prod(shape[:-2]) * _OF_SIDES[rule](shape[-2:])
    elif parameters < MIN_QUANTISED_PARAMETERS:
        num_bytes = parameters * BYTES_PER_VALUE["fp32"]
    else:
        scales = _SCALE_BYTES * -(-parameters // _QUANTISED_BLOCK[rule])
        num_bytes = -(-parameters // _VALUES_PER_BYTE[rule]) + scales
    return moment.copies * num_bytes


def _grams(sides: tuple[int, ...]) -> int:
    """Count the values of a square matrix for each side that is not too long; a vector has none."""
    return sum(side**2 for side in sides if side <= _MAX_GRAM_DIMENSION) if len(sides) > 1 else 0


def _block_factors(sides: tuple[int, ...]) -> int:
    """Count the values of a packed factor and of its inverse root, for each side of each block."""
    num_cuts = [-(-side // _SHAMPOO_BLOCK) for side in sides]
    num_blocks, num_values = math.prod(num_cuts), 0
    for side, cuts in zip(sides, num_cuts, strict=True):
        if cuts:
            num_whole, rest = divmod(side, _SHAMPOO_BLOCK)
            of_one_row = num_whole * _SHAMPOO_BLOCK * (_SHAMPOO_BLOCK + 1) + rest * (rest + 1)
            num_values += num_blocks // cuts * of_one_row
    return num_values


_OF_SIDES: dict[Rule, Callable[[tuple[int, ...]], int]] = {
    "rows": lambda sides: sides[0],  # of a vector, all its values
    "factored": sum,  # a row and a column of a matrix; of a vector, all its values
    "grams": _grams,
    "block-factors": _block_factors,
}
"""Functions that count values from the sides of a matrix, or from the length of a vector."""


def is_row_wise(optimizer: Optimizer) -> bool:
    """Return whether an optimizer keeps a value of each row of a table, as those of recommenders do.

    >>> [optimizer for optimizer in OPTIMIZERS if is_row_wise(optimizer)]
    ['rowwise-adagrad']
    """
    return any(moment.rule == "rows" for moment in OPTIMIZERS[optimizer])


def needs_whole_matrices(optimizer: Optimizer) -> bool:
    """Return whether an optimizer cannot take rows of a matrix, as it keeps a Gram matrix of each whole side.

    A step of pytorch_optimizer's SOAP (4.1.0, with torch 2.13.0) on matrices that FSDP2 cuts over two ranks ends with
    "got mixed torch.Tensor and DTensor". Shampoo makes blocks of what a rank holds.

    >>> [optimizer for optimizer in OPTIMIZERS if needs_whole_matrices(optimizer)]
    ['soap']
    """
    return any(moment.rule == "grams" for moment in OPTIMIZERS[optimizer])


def needs_matrices(optimizer: Optimizer) -> bool:
    """Return whether an optimizer's bytes depend on the sides of matrices, or on which tensors are matrices of layers.

    A number of parameters says neither.

    >>> [optimizer for optimizer in OPTIMIZERS if needs_matrices(optimizer)]
    ['rowwise-adagrad', 'muon', 'adafactor', 'adafactor-momentum', 'soap', 'shampoo']
    """
    return any(moment.rule in _OF_SIDES or moment.tensors != "all" for moment in OPTIMIZERS[optimizer])
