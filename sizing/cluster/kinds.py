"""Kinds of nodes in one cluster: the number of each, and its name in the catalog or its figures."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from sizing.catalog_file import catalog_name
from sizing.cluster.adapters import StorageNics
from sizing.cluster.node import Flops, NodeSpec, gpu_named, node_catalog, node_named
from sizing.errors import broken_rule
from sizing.strict_model import InputModel
from sizing.units import OrText

MAX_KINDS = 16
"""Max runs of equal nodes in a list. HetPipe's cluster has four kinds; an order of stages may name a kind again."""
MAX_NODES = 10_000_000
"""Max nodes of a kind: as with GPUs, a number above is a typing error."""

_AS_TEXT = re.compile(r"(?P<count>[0-9]{1,8})\s*[xX*×]\s*(?P<node>[A-Za-z].*)", re.DOTALL)  # noqa: RUF001  as people type it


def split_text(nodes: Any) -> Any:
    """Split text at its commas into kinds; return any other value as it is.

    >>> split_text("4 x dgx-a100, 4 x dgx-h100")
    ['4 x dgx-a100', '4 x dgx-h100']
    """
    return [each.strip() for each in nodes.split(",")] if isinstance(nodes, str) else nodes


class NodeKind(InputModel):
    """Nodes of one kind: how many, and what they are."""

    count: Annotated[int, Field(ge=1, le=MAX_NODES)] | None = Field(
        None,
        description="How many nodes of this kind there are. Required with several kinds. "
        "Default: as many as the degrees need.",
    )
    node: Annotated[str, Field(max_length=100), catalog_name(node_catalog)] | None = Field(
        None, description="Name of a published node type; `ckpt-size nodes` lists them. Give it or node_spec."
    )
    node_spec: NodeSpec | None = Field(
        None, description="GPUs, memory and links of a node that is not in the catalog. Give it or node."
    )
    name: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None, description="What answers call the kind. Default: the name of its node, else kind-1 and so on."
    )
    bf16_flops_per_second: Flops | None = Field(
        None,
        description="Peak of one GPU in floating-point operations per second of dense 16-bit products, for a GPU that "
        "is not in the catalog; node_spec.gpu then names the one that it resembles. Default: that of the GPU.",
    )
    storage_nics: OrText[StorageNics] | None = Field(
        None,
        description="Adapters through which a node of this kind reaches the storage, also as text: 2 x 400 Gb/s. "
        "Default: no bound.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        """Read number and name from text such as "4 x dgx-a100"."""
        if not isinstance(value, str):
            return value
        match = _AS_TEXT.fullmatch(value.strip())
        if match is None:
            raise broken_rule("is not a number of nodes with the name of one", "write for example 4 x dgx-a100")
        return {"count": int(match["count"]), "node": match["node"]}

    @model_validator(mode="after")
    def _is_one_node(self) -> Self:
        if (self.node is None) == (self.node_spec is None):
            raise broken_rule("must have node or node_spec, one of them", "name a node of the catalog, or describe one")
        if self.bf16_flops_per_second is not None and self._gpu is None:
            raise broken_rule(
                "has bf16_flops_per_second and no GPU that it resembles",
                "give node_spec.gpu, whose achieved fractions then count",
            )
        return self

    @property
    def _gpu(self) -> str | None:
        return self.node_spec.gpu if self.node_spec else node_named(self.node or "").spec.gpu

    @property
    def flops_fraction(self) -> float:
        """Peak of the GPUs over that of the GPU that they name; 1 without bf16_flops_per_second.

        >>> NodeKind(count=1, node="dgx-a100", bf16_flops_per_second=156e12).flops_fraction
        0.5
        """
        if self.bf16_flops_per_second is None or self._gpu is None:
            return 1.0
        return self.bf16_flops_per_second / gpu_named(self._gpu).bf16_flops_per_second


NodeKinds = Annotated[tuple[OrText[NodeKind], ...], Field(min_length=1, max_length=MAX_KINDS)]
"""Kinds of nodes of a cluster, in the order in which GPUs are numbered."""
