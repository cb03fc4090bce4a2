"""Find weights that several ranks, or a trainer and its framework, save whole, so that their parameters count once.

torch.save writes a CRC-32 of every storage into the archive's directory. Weights with the same name, shape, dtype and
CRC are one tensor: norms that each tensor rank keeps, dense layers in the file of each expert rank, an embedding that
first and last stage share. If all weights are in one buffer, as with a distributed optimizer, no CRC tells them apart.
Then the name of Megatron's folder says which rank wrote them, and the name of the tensor whether it is a copy there.
Hugging Face Trainer saves the weights of a run with DeepSpeed in safetensors, above the folder in which DeepSpeed saves
them once more, and those that it gathers of FSDP beside a file of accelerate (transformers 5.23, trainer.py,
_save_checkpoint).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sizing.checkpoint_files.container import Container, StoredTensor

FSDP_WEIGHTS = "pytorch_model_fsdp.bin"
"""File of weights that accelerate gathers of FSDP. Source: accelerate 1.15, utils/fsdp_utils.py, save_fsdp_model."""
_EMBEDDING = re.compile(r"(.*\.)?(word_embeddings|output_layer|embed_tokens|lm_head)\.weight")
"""Names under which first and last stage keep one tied embedding."""
_EXPERT = re.compile(r"(.*\.)?(?<!shared_)(local_)?experts\..*")
_WHOLE_ON_TENSOR_RANKS = re.compile(
    r".*(norm|router|position_embeddings)[._].*|.*(linear_proj|linear_fc2|dense_4h_to_h|attention\.dense)\.bias"
)
"""Tensors that Megatron-LM does not cut by tensor ranks: norms, routers, positions, biases of rows."""
_RANK_FOLDER = re.compile(r"mp_rank_(?P<tensor>\d+)(_(?P<pipeline>\d{3}))?(_(?P<expert>\d{3}))?")


class Weight(NamedTuple):
    """A tensor of weights, and the index of its container."""

    container: int
    tensor: StoredTensor


def copies(containers: Sequence[Container], weights: Sequence[Weight]) -> Iterator[Weight]:
    """List the occurrences of weights that another file has already."""
    by_buffer = _list_copies_in_buffers(containers, [weight for weight in weights if weight.tensor.content is None])
    yield from by_buffer
    yield from _list_copies_of_trainer(containers, weights)
    first: dict[tuple[object, ...], int] = {}
    for weight in weights:
        tensor = weight.tensor
        if tensor.content is None or not tensor.num_elements:
            continue
        name = "embedding" if _EMBEDDING.fullmatch(tensor.name) else tensor.name
        key = (name, tensor.shape, tensor.dtype, tensor.content)
        if first.setdefault(key, weight.container) != weight.container:
            yield weight


def _list_copies_of_trainer(containers: Sequence[Container], weights: Sequence[Weight]) -> Iterator[Weight]:
    """List the weights in safetensors that another file has, too: of DeepSpeed in a folder below, of FSDP beside it.

    DeepSpeed has adapters by PEFT's names.
    """
    of_deepspeed = {
        (folder, weight.tensor.name.removeprefix("module.").replace(".default.", "."), weight.tensor.shape)
        for weight in weights
        if containers[weight.container].ranks is not None
        for folder in containers[weight.container].paths[0].parent.parents
    }
    of_fsdp = {
        (path.parent, weight.tensor.name, weight.tensor.shape)
        for weight in weights
        for path in containers[weight.container].paths
        if path.name == FSDP_WEIGHTS
    }
    for weight in weights:
        container, tensor = containers[weight.container], weight.tensor
        key = (container.paths[0].parent, tensor.name, tensor.shape)
        if container.format == "safetensors" and key in of_deepspeed | of_fsdp:
            yield weight


def _list_copies_in_buffers(containers: Sequence[Container], weights: Sequence[Weight]) -> Iterator[Weight]:
    """List the weights in buffers that another rank has too: of one stage, one expert rank and one part.

    Experts that tensor ranks do not cut have ranks of their own among them: then not every pair of both numbers occurs.
    """
    ranks = [_RANK_FOLDER.fullmatch(container.paths[0].parent.name) for container in containers]
    expert_group = _find_expert_group(containers, ranks)
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


def _find_expert_group(containers: Sequence[Container], ranks: Sequence[re.Match[str] | None]) -> str | None:
    """Find which number of Megatron's folders is the expert rank: the third, or the second if all have embeddings."""
    known = [(container, rank) for container, rank in zip(containers, ranks, strict=True) if rank is not None]
    if any(rank["expert"] for _, rank in known):
        return "expert"
    folders = {rank.string for _, rank in known}
    with_embedding = {
        rank.string
        for container, rank in known
        if any("word_embeddings" in tensor.name for tensor in container.tensors)
    }
    has_several = len({rank["pipeline"] for _, rank in known}) > 1
    return "pipeline" if has_several and folders == with_embedding else None
