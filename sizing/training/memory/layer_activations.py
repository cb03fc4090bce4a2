"""What a layer keeps for the backward pass, and what it needs besides while it is computed again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sizing.layout import Parallelism
from sizing.model import Architecture
from sizing.model.composed import dense_pieces, sparse_pieces
from sizing.model.composed.pieces import Piece
from sizing.training.execution import Execution
from sizing.training.kernels import TRANSFORMER_ENGINE, Kernels
from sizing.training.memory.piece_activations import Cut, Kept, kept_by, kept_of_list

MASK_BYTES = 1
"""Of a dropout mask, per value: Korthikanti et al. 2022, section 4.1."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """An architecture's layers as one tensor rank runs them."""

    architecture: Architecture
    parallelism: Parallelism
    value_bytes: int
    kernels: Kernels = TRANSFORMER_ENGINE

    @property
    def cut(self) -> Cut:
        """How the rank runs a layer."""
        a = self.architecture
        mask_bytes = MASK_BYTES if a.traits.dropout else 0
        return Cut(self.parallelism, self.value_bytes, mask_bytes, a.num_experts_per_token or 0, self.kernels)

    @property
    def dense(self) -> Kept:
        """A layer with a dense feed-forward block."""
        return self._kept(dense_pieces(self.architecture))

    @property
    def sparse(self) -> Kept:
        """A layer with experts, among which the tokens are taken to spread evenly."""
        return self._kept(sparse_pieces(self.architecture))

    @property
    def hidden_bytes(self) -> int:
        """The hidden state of one token."""
        return self.value_bytes * self.architecture.hidden_size

    def _kept(self, pieces: Iterable[Piece]) -> Kept:
        return sum((kept_by(piece, self.cut) for piece in pieces), Kept())

    def listed(self, *, is_sparse: bool) -> Kept:
        """A layer of one of both kinds with torchtitan's selective recomputation."""
        pieces = sparse_pieces(self.architecture) if is_sparse else dense_pieces(self.architecture)
        return sum((kept_of_list(piece, self.cut) for piece in pieces), Kept())


def layer_activation_bytes(
    kept: Kept, *, hidden_bytes: int, execution: Execution, listed: Kept | None = None
) -> tuple[float, float]:
    """Bytes that a layer keeps of one microbatch, and those it needs besides while it is computed again.

    b s/c (split + whole/t) + b s^2/c scores with sequence parallelism, whole undivided without; selective: without the
    scores, or of a list of saved operations what is on it; full: b s/c w h, the layer's input; once what is computed
    again. b sequences of s tokens, c context and t tensor ranks, w bytes a value. Attention that is not eager keeps no
    scores.
    Source: Korthikanti et al. 2022, arXiv 2205.05198, equations 1 to 4 and section 5; what is computed again:
    Rajbhandari et al. 2021, arXiv 2104.07857, section 3; without scores: Dao et al. 2022, arXiv 2205.14135, section
    3.1.

    >>> h, a, s = 12_288, 96, 2_048  # GPT-3, whose layer keeps 34 s b h + 5 a s^2 b by equation 1
    >>> whole = Execution(s, 1, None, 1, 1, "1f1b", "none", attention="eager")
    >>> layer_activation_bytes(Kept(24 * h, 10 * h, 5 * a), hidden_bytes=2 * h, execution=whole)[0] / (s * h)
    114.0
    """
    tokens, sharing = execution.num_tokens, execution.num_sharing
    without_scores = tokens * (kept.split + kept.whole / sharing)
    scores = tokens * execution.sequence_length * kept.scores if execution.attention == "eager" else 0.0
    match execution.recomputation:
        case "none":
            return without_scores + scores, 0.0
        case "selective" if listed is not None:
            stored = tokens * (listed.split + listed.whole / sharing)
            return stored, max(0.0, without_scores - stored) + scores
        case "selective":
            return without_scores, scores
        case "full":
            return tokens * hidden_bytes / sharing, without_scores + scores
