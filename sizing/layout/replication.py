"""Which tensors stand in the files more than once."""

from __future__ import annotations

from sizing.layout.files import WEIGHTS
from sizing.layout.formats import FORMATS, FormatName
from sizing.layout.parallelism import Parallelism
from sizing.model import TensorGroup
from sizing.state import StatePart
from sizing.state.saved_state import PartName


def copies_in_files(group: TensorGroup, part: PartName, name: FormatName, parallelism: Parallelism) -> int:
    """How many times a part of a tensor stands in the files.

    t/p for p pieces on t > p tensor ranks, else 1; twice that where first and last stage both keep it; and in
    Megatron's own formats dense tensors stand in the file of each expert rank. A distributed checkpoint holds
    each tensor once.
    Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3; Narayanan et al. 2021, section 2.2 (tied
    embeddings); Megatron-LM, checkpointing.py; assumes that p divides t, which `check_fit` ensures.

    >>> norm = TensorGroup("norm", (64,), pieces=1)
    >>> copies_in_files(norm, "weights", "megatron", Parallelism(tensor=8, data=4, expert=2))
    16
    >>> copies_in_files(norm, "moments", "torch-dist", Parallelism(tensor=8))
    1
    """
    row = FORMATS[name]
    if not row.repeats_tensors:
        return 1
    num_ranks = parallelism.expert_tensor_degree if group.experts else parallelism.tensor
    copies = max(1, num_ranks // group.pieces)
    if group.placement == "first-and-last-stage" and parallelism.pipeline > 1:
        copies *= 2
    with_each_expert_rank = row.expert_rank_files and (part in WEIGHTS or not row.shards_optimizer)
    if with_each_expert_rank and not group.experts:
        copies *= parallelism.expert
    return copies


def group_bytes(group: TensorGroup, part: StatePart) -> int:
    """Bytes that a part keeps of a group, each logical tensor once.

    Tensors x bytes of one tensor; 0 of frozen tensors where the part keeps none of them.
    Source: definition.

    >>> group_bytes(TensorGroup("norm", (64,), 1, layers=range(3)), StatePart("weights", "bf16"))
    384
    """
    if not group.is_trained and not part.is_kept_of_frozen:
        return 0
    per_parameter = part.bytes_per_parameter
    if per_parameter is not None:
        return group.num_parameters * per_parameter
    return group.num_tensors * part.tensor_bytes(group.shape, is_hidden_matrix=group.is_hidden_matrix)
