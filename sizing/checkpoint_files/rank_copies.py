"""Weights that several ranks save whole: which of their occurrences are copies, so that parameters count once.

torch.save writes a CRC-32 of every storage into the archive's directory. Weights of one name, shape, dtype and CRC are
one tensor: norms that each tensor rank keeps, dense layers in the file of each expert rank, an embedding that first
and last stage share. Where all weights stand in one buffer, as with a distributed optimizer, no CRC tells them apart;
then the name of Megatron's folder says which rank wrote them, and the name of the tensor whether it is a copy there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sizing.checkpoint_files.container import Container, StoredTensor

_EMBEDDING = re.compile(r"(.*\.)?(word_embeddings|output_layer|embed_tokens|lm_head)\.weight")
"""Names under which first and last stage keep one tied embedding."""
_EXPERT = re.compile(r"(.*\.)?(?<!shared_)(local_)?experts\..*")
_WHOLE_ON_TENSOR_RANKS = re.compile(
    r".*(norm|router|position_embeddings)[._].*|.*(linear_proj|linear_fc2|dense_4h_to_h|attention\.dense)\.bias"
)
"""What Megatron-LM does not cut by tensor ranks: norms, routers, positions, biases of rows."""
_RANK_FOLDER = re.compile(r"mp_rank_(?P<tensor>\d+)(_(?P<pipeline>\d{3}))?(_(?P<expert>\d{3}))?")


class Weight(NamedTuple):
    """A tensor of weights, and the place of its container among all."""

    container: int
    tensor: StoredTensor


def copies(containers: Sequence[Container], weights: Sequence[Weight]) -> Iterator[Weight]:
    """The occurrences of weights that another file has already."""
    by_buffer = _copies_in_buffers(containers, [weight for weight in weights if weight.tensor.content is None])
    yield from by_buffer
    first: dict[tuple[object, ...], int] = {}
    for weight in weights:
        tensor = weight.tensor
        if tensor.content is None or not tensor.num_elements:
            continue
        name = "embedding" if _EMBEDDING.fullmatch(tensor.name) else tensor.name
        key = (name, tensor.shape, tensor.dtype, tensor.content)
        if first.setdefault(key, weight.container) != weight.container:
            yield weight


def _copies_in_buffers(containers: Sequence[Container], weights: Sequence[Weight]) -> Iterator[Weight]:
    """By the ranks that hold something else under one name: stages; expert ranks; tensor ranks of what they cut.

    Experts that tensor ranks do not cut have ranks of their own among them: then not every pair of both numbers occurs.
    """
    ranks = [_RANK_FOLDER.fullmatch(container.paths[0].parent.name) for container in containers]
    expert_group = _expert_group(containers, ranks)
    pairs = {(rank["tensor"], rank[expert_group]) for rank in ranks if rank is not None and expert_group is not None}
    are_experts_cut = len(pairs) == len({tensor for tensor, _ in pairs}) * len({expert for _, expert in pairs})
    first: dict[tuple[str | None, ...], int] = {}
    for weight in weights:
        rank, name = ranks[weight.container], weight.tensor.name
        if rank is None:
            continue
        is_expert = expert_group is not None and _EXPERT.fullmatch(name) is not None
        is_cut = are_experts_cut if is_expert else _WHOLE_ON_TENSOR_RANKS.fullmatch(name) is None
        stage = None if expert_group == "pipeline" else rank["pipeline"]
        expert_rank = rank[expert_group] if is_expert and expert_group else None
        key = (name, stage, expert_rank, rank["tensor"] if is_cut else None)
        if first.setdefault(key, weight.container) != weight.container:
            yield weight


def _expert_group(containers: Sequence[Container], ranks: Sequence[re.Match[str] | None]) -> str | None:
    """Which number of Megatron's folders is the expert rank: the third, or the second where each has an embedding."""
    known = [(container, rank) for container, rank in zip(containers, ranks, strict=True) if rank is not None]
    if any(rank["expert"] for _, rank in known):
        return "expert"
    folders = {rank.string for _, rank in known}
    with_embedding = {rank.string for container, rank in known if any(map(_is_embedding, container.tensors))}
    has_several = len({rank["pipeline"] for _, rank in known}) > 1
    return "pipeline" if has_several and folders == with_embedding else None


def _is_embedding(tensor: StoredTensor) -> bool:
    return "word_embeddings" in tensor.name
