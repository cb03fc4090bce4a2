"""Which ranks write which files, by format: classes of equal ranks, each with its multiplicity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from sizing.layout.cells import Cell, Shards, unique_content
from sizing.layout.formats import FormatName, zero_stage_of
from sizing.layout.parallelism import Parallelism
from sizing.layout.shards import Shard, content_of
from sizing.layout.stages import Holding, StageSpan, share
from sizing.state import StatePart
from sizing.state.saved_state import ZERO_STAGE_WITHOUT_WEIGHTS, PartName

WEIGHTS: tuple[PartName, ...] = ("weights",)
OPTIMIZER: tuple[PartName, ...] = ("master", "moments", "ema")
PartBytes = dict[PartName, int]
Holds = Literal["tensors", "flat-buffers", "share"]
"""`tensors`: each as its rank holds it. `flat-buffers`: the values of all in a row, one buffer per statistic. `share`:
a run of the bytes of several ranks' tensors, cut where the run begins and ends."""

_MODEL_STATES = "mp_rank_MM_model_states.pt"

FLAT_BUFFERS = 3
"""Tensors in a file of a sharded optimizer: master copy and two moments, each one flat buffer."""


@dataclass(frozen=True, slots=True)
class File:
    """`count` files of one name pattern that a rank writes, and the bytes of them all.

    `dense` and `expert` are the bytes of each part, of dense tensors and of routed experts; `num_tensors` the
    tensors that all of the files hold together, `holds` in which form.
    """

    name: str
    dense: PartBytes
    expert: PartBytes
    num_tensors: int
    count: int = 1
    holds: Holds = "tensors"

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors in all of the files."""
        return sum(self.dense.values()) + sum(self.expert.values())


@dataclass(frozen=True, slots=True)
class WriterClass:
    """Ranks of equal stages that write files of equal sizes.

    Within a stage they are the ranks i + `inner_size` o for i in `inner` and o in `outer`: tensor ranks and
    data ranks, FSDP shards and their copies, or simply a run of ranks.
    """

    span: StageSpan
    inner: range
    inner_size: int
    outer: range
    files: tuple[File, ...]

    @property
    def num_ranks(self) -> int:
        """Ranks of the class over all its stages."""
        return len(self.span.stages) * len(self.inner) * len(self.outer)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the formats need to know of a layout."""

    spans: tuple[StageSpan, ...]
    cells: tuple[Cell, ...]
    parallelism: Parallelism
    parts: tuple[StatePart, ...]
    files_per_rank: int
    optimizer_prefix: str
    experts_per_rank: int


def writers_of(name: FormatName, plan: Plan) -> tuple[WriterClass, ...]:
    """The classes of writers of a format."""
    return tuple(_WRITERS[name](plan))


def writers_per_stage(name: FormatName, parallelism: Parallelism) -> int:
    """Consecutive ranks, from the first of each stage on, that write.

    Source: `writers` of the format's row in `formats.py`.

    >>> writers_per_stage("megatron", Parallelism(tensor=8, data=6))
    8
    """
    match name:
        case "full":
            return 1
        case "megatron" | "megatron-distributed-optimizer":
            return parallelism.tensor * parallelism.expert
        case "deepspeed" if zero_stage_of(name, parallelism) == 0:
            return parallelism.tensor * parallelism.expert
        case _:
            return parallelism.ranks_per_stage


def _megatron(plan: Plan) -> Iterator[WriterClass]:
    name = f"{_mp_rank(plan)}/model_optim_rng.pt"
    for cell in plan.cells:
        num_tensors = cell.dense.num_tensors() + cell.expert.num_tensors()
        file = File(name, cell.dense.part_bytes, cell.expert.part_bytes, num_tensors)
        yield _of_cell(plan, cell, (file,), data_ranks=range(plan.parallelism.expert))


def _megatron_distributed_optimizer(plan: Plan) -> Iterator[WriterClass]:
    """The optimizer of the dense tensors is gathered to expert rank 0 alone, their weights stand in each file."""
    weights_name, optimizer_name = (f"{_mp_rank(plan)}/{f}.pt" for f in ("model_optim_rng", "distrib_optim"))
    for cell in plan.cells:
        num_weights = cell.dense.num_tensors(WEIGHTS) + cell.expert.num_tensors(WEIGHTS)
        weights = File(weights_name, cell.dense.of(WEIGHTS), cell.expert.of(WEIGHTS), num_weights)
        expert = cell.expert.of(OPTIMIZER)
        first = File(optimizer_name, cell.dense.of(OPTIMIZER), expert, FLAT_BUFFERS, holds="flat-buffers")
        yield _of_cell(plan, cell, (weights, first), data_ranks=range(1))
        if plan.parallelism.expert > 1:
            others = File(optimizer_name, {}, expert, FLAT_BUFFERS, holds="flat-buffers")
            yield _of_cell(plan, cell, (weights, others), data_ranks=range(1, plan.parallelism.expert))


def _torch_dist(plan: Plan) -> Iterator[WriterClass]:
    """Every rank of a stage writes an equal share of what the stage holds, each tensor once."""
    ranks = plan.parallelism.ranks_per_stage
    for span in plan.spans:
        dense, expert = unique_content(span, plan.parallelism, plan.parts)
        for first, past in _runs(ranks, (dense.part_bytes, ranks, 1), (expert.part_bytes, ranks, 1)):
            file = File(
                "__RANK_N.distcp",
                _shares(dense.part_bytes, ranks, first),
                _shares(expert.part_bytes, ranks, first),
                -(-(dense.num_tensors() + expert.num_tensors()) // ranks),
                plan.files_per_rank,
                holds="share",
            )
            yield WriterClass(span, range(first, past), ranks, range(1), (file,))


def _deepspeed(plan: Plan) -> Iterator[WriterClass]:
    """Rank j of the data ranks is expert rank j mod E and replica floor(j / E) of its experts."""
    p, stage = plan.parallelism, zero_stage_of("deepspeed", plan.parallelism)
    for cell in plan.cells:
        if stage == 0:
            for first, past in _runs(p.expert, extra=(1,)):
                files = tuple(_deepspeed_without_zero(plan, cell, data_rank=first))
                yield _of_cell(plan, cell, files, data_ranks=range(first, past))
            continue
        sharded = OPTIMIZER if stage < ZERO_STAGE_WITHOUT_WEIGHTS else (*WEIGHTS, *OPTIMIZER)
        dense, expert = cell.dense.of(sharded), cell.expert.of(sharded)
        dealt = (dense, p.num_replicas, 1), (expert, p.num_expert_replicas, p.expert)
        for first, past in _runs(p.num_replicas, *dealt, extra=(1, p.expert)):
            shard = File(
                f"{plan.optimizer_prefix}zero_pp_rank_D_mp_rank_MM_optim_states.pt",
                _shares(dense, p.num_replicas, first),
                _shares(expert, p.num_expert_replicas, first // p.expert),
                FLAT_BUFFERS,
                holds="flat-buffers",
            )
            weights = _deepspeed_weights(plan, cell, data_rank=first, zero_stage=stage)
            yield _of_cell(plan, cell, (*weights, shard), data_ranks=range(first, past))


def _deepspeed_without_zero(plan: Plan, cell: Cell, *, data_rank: int) -> Iterator[File]:
    """The optimizer stands beside the dense weights, that of the experts in a file of each expert rank."""
    dense, expert = cell.dense.of(OPTIMIZER), cell.expert.of(OPTIMIZER)
    for file in _deepspeed_weights(plan, cell, data_rank=data_rank, zero_stage=0):
        if file.name == _MODEL_STATES:
            num_tensors = file.num_tensors + cell.dense.num_tensors(OPTIMIZER)
            yield replace(file, dense=file.dense | dense, num_tensors=num_tensors)
        else:
            yield file
    if cell.expert.parameters:
        name = "expp_rank_EE_mp_rank_MM_optim_states.pt"
        yield File(name, {}, expert, cell.expert.num_tensors(OPTIMIZER))


def _deepspeed_weights(plan: Plan, cell: Cell, *, data_rank: int, zero_stage: int) -> Iterator[File]:
    """The files with weights that a data rank writes: dense ones by rank 0, experts' by their first replica."""
    if zero_stage == ZERO_STAGE_WITHOUT_WEIGHTS:
        yield File("zero_pp_rank_D_mp_rank_MM_model_states.pt", {}, {}, 0)
        return
    dense, num_weights = cell.dense.of(WEIGHTS), cell.dense.num_tensors(WEIGHTS)
    if data_rank == 0:
        if plan.parallelism.pipeline > 1 and cell.span.layers:
            yield File(_MODEL_STATES, {}, {}, 0)
            yield File("layer_LL-model_TT-model_states.pt", dense, {}, num_weights, len(cell.span.layers))
        else:
            yield File(_MODEL_STATES, dense, {}, num_weights)
    if data_rank < plan.parallelism.expert and cell.expert.parameters:
        num_files = len(cell.span.expert_layers) * plan.experts_per_rank
        weights, num_tensors = cell.expert.of(WEIGHTS), cell.expert.num_tensors(WEIGHTS)
        yield File("layer_L_expert_E_mp_rank_MM_model_states.pt", {}, weights, num_tensors, num_files)


def _fsdp_sharded(plan: Plan) -> Iterator[WriterClass]:
    """FSDP2 cuts each tensor along its first dimension into equal chunks, the last ones smaller or empty.

    Source: PyTorch, torch/distributed/fsdp/_fully_shard/_fsdp_param.py, chunks as torch.chunk makes them.
    """
    ranks = plan.parallelism.shard_ranks
    copies = plan.parallelism.num_replicas // ranks
    span = plan.spans[0]
    edges = {0, ranks}
    for holding in span.holdings:
        num_rows = _fsdp_shape(holding)[0]
        rows = -(-num_rows // ranks)
        edges |= {min(ranks, num_rows // rows), min(ranks, -(-num_rows // rows))}
    for first, past in pairwise(sorted(edges)):
        dense, expert = (content_of(shards, plan.parts) for shards in fsdp_shards(span, num_ranks=ranks, rank=first))
        for copy, copy_past in _runs(copies, (dense.part_bytes, copies, 1), (expert.part_bytes, copies, 1)):
            file = File(
                "__RANK_0.distcp",
                _shares(dense.part_bytes, copies, copy),
                _shares(expert.part_bytes, copies, copy),
                -(-(dense.num_tensors() + expert.num_tensors()) // copies),
                holds="share",
            )
            yield WriterClass(span, range(first, past), ranks, range(copy, copy_past), (file,))


def fsdp_shards(span: StageSpan, *, num_ranks: int, rank: int) -> Shards:
    """What an FSDP rank holds: its chunk of the rows of each tensor, where the experts of a layer are one tensor."""
    shards: Shards = ([], [])
    for h in span.holdings:
        num_rows, *others = _fsdp_shape(h)
        shape = (_chunk(num_rows, num_ranks, rank), *others)
        shards[bool(h.experts)].append(Shard(shape, h.count, h.is_hidden_matrix, h.is_trained, h.name))
    return shards


def _fsdp_shape(holding: Holding) -> tuple[int, ...]:
    return (holding.experts, *holding.shape) if holding.experts else holding.shape


def _full(plan: Plan) -> Iterator[WriterClass]:
    span = plan.spans[0]
    dense, expert = unique_content(span, plan.parallelism, plan.parts)
    file = File("checkpoint.pt", dense.part_bytes, expert.part_bytes, dense.num_tensors() + expert.num_tensors())
    yield WriterClass(span, range(1), 1, range(1), (file,))


_WRITERS: dict[FormatName, Callable[[Plan], Iterator[WriterClass]]] = {
    "megatron": _megatron,
    "megatron-distributed-optimizer": _megatron_distributed_optimizer,
    "torch-dist": _torch_dist,
    "deepspeed": _deepspeed,
    "fsdp-sharded": _fsdp_sharded,
    "full": _full,
}


def _of_cell(plan: Plan, cell: Cell, files: tuple[File, ...], *, data_ranks: range) -> WriterClass:
    return WriterClass(cell.span, cell.tensor_ranks, plan.parallelism.tensor, data_ranks, files)


def _mp_rank(plan: Plan) -> str:
    pipeline = "_PPP" if plan.parallelism.pipeline > 1 else ""
    expert = "_EEE" if plan.parallelism.expert > 1 else ""
    return f"mp_rank_TT{pipeline}{expert}"


def _runs(num_ranks: int, *dealt: tuple[PartBytes, int, int], extra: Iterable[int] = ()) -> Iterator[tuple[int, int]]:
    """Runs of ranks with equal shares; each of `dealt` is (bytes, number of shares, ranks per share)."""
    edges = {0, num_ranks, *(edge for edge in extra if edge < num_ranks)}
    for part_bytes, num_shares, ranks_per_share in dealt:
        edges |= {num_bytes % num_shares * ranks_per_share for num_bytes in part_bytes.values()}
    return pairwise(sorted(edges))


def _shares(part_bytes: PartBytes, num_shares: int, index: int) -> PartBytes:
    return {name: share(num_bytes, num_shares, index) for name, num_bytes in part_bytes.items()}


def _chunk(rows: int, num_ranks: int, rank: int) -> int:
    """Rows of chunk `rank` where every chunk but the last ones has ceil(rows / ranks).

    >>> [_chunk(10, 4, rank) for rank in range(4)], [_chunk(5, 4, rank) for rank in range(4)]
    ([3, 3, 3, 1], [2, 2, 1, 0])
    """
    size = -(-rows // num_ranks)
    return max(0, min(size, rows - rank * size))
