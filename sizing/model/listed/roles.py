"""Roles that tell a layout how to treat a tensor of a list, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, get_args

Place = Literal["embedding", "layer", "head"]
"""Position of a tensor in the model. `embedding`: on the first stage. `layer`: with the layer that its name counts.
`head`: on the last stage.
"""
Cut = Literal["column", "row", "replicated"]
"""Way in which tensor ranks cut a tensor. `column`: by its outputs, which are the vocabulary for embedding and head.
`row`: by its inputs. `replicated`: whole on every tensor rank. The words are those of Shoeybi et al. 2019, arXiv
1909.08053, section 3."""
Role = Literal["embedding", "layer", "head", "column", "row", "replicated", "expert", "router", "buffer", "tied"]

PLACES: tuple[Place, ...] = ("embedding", "layer", "head")
CUTS: tuple[Cut, ...] = ("column", "row", "replicated")
UNCOUNTED: tuple[Role, ...] = ("buffer", "tied")
"""Roles of tensors without parameters of their own: buffers, and further names of a parameter."""

_EXCLUDING: tuple[tuple[Role, ...], ...] = (
    PLACES,
    CUTS,
    UNCOUNTED,
    ("router", "column", "row"),
    ("router", "expert"),
    *(("buffer", role) for role in get_args(Role) if role not in UNCOUNTED),
)


def contradiction(roles: Collection[Role]) -> str | None:
    """Say which two roles cannot belong to one tensor, in words that follow its name; None if all can.

    >>> contradiction(("expert", "column", "row"))
    'must not be both column and row'
    >>> contradiction(("column", "buffer"))
    'must not be both buffer and column'
    """
    for words in _EXCLUDING:
        both = [word for word in words if word in roles]
        if len(both) > 1:
            return f"must not be both {both[0]} and {both[1]}"
    return None
