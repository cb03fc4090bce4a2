"""Errors of compressed gradients on every data-parallel rank, and the files in which each rank saves its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from sizing.errors import InvalidInput
from sizing.layout.files import File, WriterClass
from sizing.layout.holders import HolderClass, Shard, rank_shards
from sizing.layout.parallelism import Parallelism
from sizing.layout.sharding import WHOLE, Sharding
from sizing.model.trained import DESCRIBE
from sizing.state import StatePart, Training
from sizing.state.gradient_compression import METHODS, Exchange, GradientCompression
from sizing.state.optimizers import BYTES_PER_VALUE
from sizing.state.saved_state import RANK_PART

FILE_NAME = "gradient_errors_RANK.pt"

_OfTensor = Callable[[tuple[int, ...], GradientCompression, Exchange], float]


@dataclass(frozen=True, slots=True)
class GradientErrors:
    """Gradient compression of one model-parallel rank, which adds up gradients with its replicas."""

    given: GradientCompression
    value_bytes: int
    parallelism: Parallelism

    @classmethod
    def of(cls, training: Training, parallelism: Parallelism) -> GradientErrors | None:
        """Return the errors that a training keeps; None where gradients are exchanged as they are.

        Errors have the dtype of the gradients that a hook of PyTorch's DDP sees: that of the parameters.
        """
        if training.gradient_compression is None:
            return None
        value_bytes = BYTES_PER_VALUE["bf16" if training.precision == "bf16" else "fp32"]
        return cls(training.gradient_compression, value_bytes, parallelism)

    def kept_bytes(self, holder: HolderClass) -> int:
        """Count the bytes that a rank of the holder keeps of all its tensors from step to step."""
        return round(self._add_up(holder, METHODS[self.given.method].kept_bytes))

    def sent_bytes(self, holder: HolderClass) -> float:
        """Count the bytes that a rank of the holder sends of all its tensors in a step."""
        return self._add_up(holder, METHODS[self.given.method].sent_bytes)

    def exchanged_bytes(self, holder: HolderClass) -> tuple[float, float]:
        """Count the bytes that all ranks gather of the holder's dense tensors, and of its experts, in a step."""
        return self._both(holder, METHODS[self.given.method].exchanged_bytes)

    def _add_up(self, holder: HolderClass, of_tensor: _OfTensor) -> float:
        return sum(self._both(holder, of_tensor))

    def _both(self, holder: HolderClass, of_tensor: _OfTensor) -> tuple[float, float]:
        """Sum over dense tensors, and over routed experts."""
        dense, experts = rank_shards(holder.span, self.parallelism, holder.tensor_ranks.start)
        replicas = self.parallelism.replicas
        return self._of(dense, replicas.dense, of_tensor), self._of(experts, replicas.expert, of_tensor)

    def _of(self, shards: Iterable[Shard], num_ranks: int, of_tensor: _OfTensor) -> float:
        exchange = Exchange(num_ranks, self.value_bytes)
        return sum(
            shard.count * of_tensor(shard.shape, self.given, exchange)
            for shard in shards
            if shard.is_trained and shard.parameters
        )


def check_compression(training: Training, sharding: Sharding, *, has_bare_counts: bool) -> None:
    """Refuse compression if ranks do not hold whole gradients, or if the method needs unknown shapes."""
    given = training.gradient_compression
    if given is None:
        return
    method = METHODS[given.method]
    if method.optimizers and training.optimizer not in method.optimizers:
        raise InvalidInput.of(
            "training.gradient_compression.method",
            f"{given.method} must go with optimizer {' or '.join(method.optimizers)}",
            value=training.optimizer,
            remedy="change it or training.optimizer",
        )
    if {sharding.weights, sharding.gradients, sharding.optimizer} != {WHOLE}:
        raise InvalidInput.of(
            "training.gradient_compression",
            "needs ranks that each have whole weights, gradients and optimizer, and here they divide them",
            value=given.method,
            remedy="give zero_stage 0, distributed_optimizer false or shard_group 1, or remove it",
        )
    if method.needs_shapes and has_bare_counts:
        raise InvalidInput.of(
            "training.gradient_compression.method",
            f"{given.method} needs the shapes of tensors, and a model is given by its parameter count alone",
            value=given.method,
            remedy=f"choose another, or {DESCRIBE}",
        )


def errors_part(errors: GradientErrors) -> StatePart:
    """Return the part of the state that has the ranks' errors."""
    return StatePart(RANK_PART, "bf16" if errors.value_bytes == BYTES_PER_VALUE["bf16"] else "fp32")


def with_errors(
    writers: Sequence[WriterClass], holders: Sequence[HolderClass], errors: GradientErrors, *, format_name: str
) -> tuple[WriterClass, ...]:
    """Add a file of its own errors to every rank of the job; ranks that are not writers write only that file.

    Raises InvalidInput for a format with a writer that is not a data rank of some tensor ranks.
    """
    rectangles = [(_rectangle(writer, errors.parallelism.tensor), writer) for writer in writers]
    if any(rectangle is None for rectangle, _ in rectangles):
        raise InvalidInput.of(
            "checkpoint.format",
            f"{format_name} has no place for what each rank keeps of training.gradient_compression",
            value=format_name,
            remedy="choose another, or set training.gradient_compression.saves_errors to false",
        )
    known = [(rectangle, writer) for rectangle, writer in rectangles if rectangle is not None]
    return tuple(chain.from_iterable(_add_errors(holder, known, errors) for holder in holders))


_Rectangle = tuple[range, range]
"""Tensor ranks, and the data ranks of each of them."""


def _rectangle(writer: WriterClass, tensor: int) -> _Rectangle | None:
    """Return the ranks of a class, if they are the same data ranks of each of some tensor ranks; otherwise None."""
    if writer.tensor == tensor and writer.inner == range(1):
        return writer.tensor_ranks, writer.outer
    if writer.inner_size == tensor and writer.tensor == 1:
        return writer.inner, writer.outer
    return (writer.inner, writer.outer) if writer.inner == writer.outer == range(1) else None


def _add_errors(
    holder: HolderClass, rectangles: Sequence[tuple[_Rectangle, WriterClass]], errors: GradientErrors
) -> Iterator[WriterClass]:
    """Give all ranks of a holder a file of errors, in runs that write the same files."""
    of_span = [(at, writer) for at, writer in rectangles if writer.span.stages == holder.span.stages]
    tensor, num_replicas = errors.parallelism.tensor, errors.parallelism.num_replicas
    own = File(FILE_NAME, {RANK_PART: errors.kept_bytes(holder)}, {}, 1, holds="flat-buffers")
    for first, past in _runs(holder.tensor_ranks, [ranks for (ranks, _), _ in of_span]):
        here = [(data, writer) for (ranks, data), writer in of_span if first in ranks]
        for begin, end in _runs(range(num_replicas), [data for data, _ in here]):
            files = chain.from_iterable(writer.files for data, writer in here if begin in data)
            span = next((writer.span for data, writer in here if begin in data), holder.span)
            yield WriterClass(span, range(first, past), tensor, range(begin, end), (*files, own))


def _runs(whole: range, parts: Iterable[range]) -> Iterator[tuple[int, int]]:
    """Cut a range where a part begins or ends."""
    edges = {edge for part in parts for edge in (part.start, part.stop) if edge in whole}
    return pairwise(sorted({whole.start, whole.stop, *edges}))
