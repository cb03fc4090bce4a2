"""Compressed gradients: the bytes of a tensor's gradient that a data-parallel rank sends, and those it keeps.

One object per method; `METHODS` lists them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sizing.errors import broken_rule
from sizing.spelling import AnySpelling
from sizing.strict_model import InputModel
from sizing.units import BITS_PER_BYTE, Fraction, OrText

MethodName = Literal["top-k", "qsgd", "powersgd", "1-bit-adam"]

Shape = tuple[int, ...]


class GradientCompression(InputModel):
    """How data-parallel ranks compress the gradients that they exchange."""

    method: AnySpelling[MethodName] = Field(
        description="Method: the largest gradients alone (top-k), few bits (qsgd), low rank (powersgd), or signs of "
        "the momentum (1-bit-adam)."
    )
    density: OrText[Annotated[Fraction, Field(gt=0, le=1, allow_inf_nan=False)]] = Field(
        0.01,
        description="Fraction of the gradients that top-k sends. Default: 0.01, as Aji and Heafield 2017 drop 99 %; "
        "it counts with top-k alone.",
    )
    bits: Annotated[int, Field(ge=2, le=16)] = Field(
        4,
        description="Bits of a gradient with qsgd, its sign included. Default: 4, as in Alistarh et al. 2017; it "
        "counts with qsgd alone.",
    )
    bucket_size: Annotated[int, Field(ge=1, le=1_000_000_000)] = Field(
        512,
        description="Gradients that share an fp32 norm with qsgd. Default: 512, as in Alistarh et al. 2017; it counts "
        "with qsgd alone.",
    )
    rank: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1,
        description="Rank of the matrices that powersgd sends. Default: 1, matrix_approximation_rank of PyTorch; it "
        "counts with powersgd alone.",
    )
    error_feedback: bool | None = Field(
        None,
        description="Whether each rank keeps what it did not send, to add it to its next gradient. Default: yes, but "
        "not with qsgd, whose mean is right without.",
    )
    saves_errors: bool = Field(
        True,
        description="Whether every rank saves what it keeps, which differs from rank to rank. Default: yes; DeepSpeed "
        "begins anew with 1-bit Adam when it loads.",
    )

    @model_validator(mode="after")
    def _gives_what_its_method_takes(self) -> Self:
        foreign = {name: method.name for method in METHODS.values() for name in method.takes}
        for name in sorted(self.model_fields_set & set(foreign)):
            if foreign[name] != self.method:
                raise broken_rule(f"has {name}, which counts with {foreign[name]} alone", f"remove {name}")
        return self


INDEX_BYTES = 4
"""Bytes of the index of a value in its tensor. Source: Aji and Heafield 2017, arXiv 1704.05021, section 3."""
NORM_BYTES = 4
"""Bytes of the fp32 norm of a bucket, or of the fp32 scale of a message. Source: as METHODS."""
MIN_COMPRESSION_RATE = 2
"""Min factor by which low rank must shrink a tensor; otherwise it is sent whole. Source: PyTorch 2.13,
powerSGD_hook.py.
"""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Ranks that add up the gradient of a tensor, and the bytes of one of its values."""

    num_ranks: int
    value_bytes: int


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Compression method: bytes that it sends and keeps of the gradient of one tensor.

    `feeds_back`: it keeps errors by default. `needs_shapes`: the number of parameters is not enough. `takes`: the
    fields that only this method uses. `optimizers`: those that it works with; all if empty.
    """

    name: MethodName
    feeds_back: bool
    source: str
    needs_shapes: bool = False
    takes: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()

    @abstractmethod
    def sent_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> float:
        """Count the bytes of a rank's message for one tensor."""

    @abstractmethod
    def error_bytes(self, shape: Shape, exchange: Exchange) -> int:
        """Count the bytes that one rank keeps of a tensor with error feedback."""

    def exchanged_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> float:
        """Count the bytes that all ranks gather: a message cannot be added up, so it goes to every rank.

        Source: Agarwal et al. 2022, arXiv 2103.00543, section 2: methods that are not all-reducible are all-gathered.
        """
        return exchange.num_ranks * self.sent_bytes(shape, given, exchange)

    def warm_start_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> int:
        """Count the bytes that a rank keeps with or without error feedback; none with most methods."""
        return 0

    def kept_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> int:
        """Count the bytes that a rank keeps of one tensor from step to step."""
        feeds_back = self.feeds_back if given.error_feedback is None else given.error_feedback
        errors = self.error_bytes(shape, exchange) if feeds_back else 0
        return errors + self.warm_start_bytes(shape, given, exchange)


class TopK(Method):
    """Method that sends the largest values with their indices, and keeps the others as errors."""

    def sent_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> float:
        """Count k (b + 4), for the k = max(1, density n) largest of n values of b bytes."""
        return max(1, math.floor(given.density * math.prod(shape))) * (exchange.value_bytes + INDEX_BYTES)

    def error_bytes(self, shape: Shape, exchange: Exchange) -> int:
        """Count n b: the error is as large as the gradient."""
        return math.prod(shape) * exchange.value_bytes


class Quantised(Method):
    """Method that sends a sign and a few levels for each value, and a norm for each bucket."""

    def sent_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> float:
        """Count n q/8 + 4 ceil(n/d), for q bits of each of n values in buckets of d."""
        parameters = math.prod(shape)
        return parameters * given.bits / BITS_PER_BYTE + NORM_BYTES * -(-parameters // given.bucket_size)

    def error_bytes(self, shape: Shape, exchange: Exchange) -> int:
        """Count n b: every value of the gradient keeps its error."""
        return math.prod(shape) * exchange.value_bytes


class LowRank(Method):
    """Method that sends two thin matrices in place of a matrix at least twice as large, and keeps what they miss.

    A tensor of more than two dimensions counts as a matrix of its first dimension by all others.
    """

    def sent_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> float:
        """Count (n + m) r b for a compressed matrix n x m, with r at most n and m; otherwise n m b."""
        compressed = _low_rank_values(shape, given.rank)
        return (math.prod(shape) if compressed is None else compressed) * exchange.value_bytes

    def exchanged_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> float:
        """Count twice the message: thin matrices are all-reduced, by a reduce-scatter and an all-gather."""
        return 2.0 * self.sent_bytes(shape, given, exchange)

    def error_bytes(self, shape: Shape, exchange: Exchange) -> int:
        """Count n m b for every tensor: PyTorch keeps errors of whole buckets, also of tensors that are sent whole."""
        return math.prod(shape) * exchange.value_bytes

    def warm_start_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> int:
        """Count (n + m) r b: the next step starts from the matrices of this one."""
        return (_low_rank_values(shape, given.rank) or 0) * exchange.value_bytes


def _low_rank_values(shape: Shape, rank: int) -> int | None:
    """Count the values of both thin matrices; None if the tensor is sent whole."""
    if len(shape) < 2:
        return None
    rows, columns = shape[0], math.prod(shape[1:])
    if (rows + columns) * rank * MIN_COMPRESSION_RATE >= rows * columns:
        return None
    return (rows + columns) * min(rows, columns, rank)


class OneBit(Method):
    """Method that sends the sign of each value to the rank that adds it up, and back; both keep errors in fp32."""

    def sent_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> float:
        """Count c/8 + 4 for c padded values to the ranks that add them up, and c/(8 N) + 4 for the own part to all."""
        padded, ranks = _pad(shape, exchange.num_ranks), exchange.num_ranks
        return (padded + padded / ranks) / BITS_PER_BYTE + 2 * NORM_BYTES

    def exchanged_bytes(self, shape: Shape, given: GradientCompression, exchange: Exchange) -> float:
        """Count c/8 + 4 N to the ranks that add up, and as much gathered from them."""
        padded = _pad(shape, exchange.num_ranks)
        return 2.0 * (padded / BITS_PER_BYTE + NORM_BYTES * exchange.num_ranks)

    def error_bytes(self, shape: Shape, exchange: Exchange) -> int:
        """Count 4 c + 4 c/N: the errors of a worker, and those of the part that it adds up."""
        padded = _pad(shape, exchange.num_ranks)
        return NORM_BYTES * (padded + padded // exchange.num_ranks)


def _pad(shape: Shape, num_ranks: int) -> int:
    """Count the values of a tensor, padded so that the signs of each rank's part fill whole bytes.

    Source: DeepSpeed 0.16.9, runtime/fp16/onebit/adam.py, corrected_tensor_size.
    """
    unit = num_ranks * (num_ranks * BITS_PER_BYTE // math.gcd(num_ranks, BITS_PER_BYTE))
    return -(-math.prod(shape) // unit) * unit


METHODS: dict[MethodName, Method] = {
    method.name: method
    for method in (
        TopK(
            name="top-k",
            feeds_back=True,
            takes=("density",),
            source="Aji and Heafield 2017, arXiv 1704.05021, section 3",
        ),
        Quantised(
            name="qsgd",
            feeds_back=False,
            takes=("bits", "bucket_size"),
            source="Alistarh et al. 2017, arXiv 1610.02132, section 3",
        ),
        LowRank(
            name="powersgd",
            feeds_back=True,
            needs_shapes=True,
            takes=("rank",),
            source="Vogels et al. 2019, arXiv 1905.13727; PyTorch 2.13, ddp_comm_hooks/powerSGD_hook.py",
        ),
        OneBit(
            name="1-bit-adam",
            feeds_back=True,
            optimizers=("adam", "adamw"),
            source="Tang et al. 2021, arXiv 2102.02888; DeepSpeed 0.16.9, runtime/fp16/onebit/adam.py, "
            "runtime/comm/nccl.py",
        ),
    )
}
"""Every method, by name."""
