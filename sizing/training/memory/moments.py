"""What a GPU holds beside its state: activations that wait, and the fullest of three moments."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.training.memory.in_flight import InFlight
from sizing.training.memory.stage_activations import HeldByStage


@dataclass(frozen=True, slots=True)
class Moments:
    """Activations of a stage, and what is held beside them."""

    held: HeldByStage
    beside: InFlight

    def __add__(self, other: Moments) -> Moments:
        """Of a GPU that hosts both stages: what waits adds up, one of them at a time is at its loss or in a layer."""
        held = HeldByStage(
            kept=self.held.kept + other.held.kept,
            kept_logits=self.held.kept_logits + other.held.kept_logits,
            loss=max(self.held.loss, other.held.loss),
            layer=max(self.held.layer, other.held.layer),
        )
        beside = InFlight(
            loss=max(self.beside.loss, other.beside.loss),
            layer=max(self.beside.layer, other.beside.layer),
            end=max(self.beside.end, other.beside.end),
            buffers=self.beside.buffers + other.beside.buffers,
        )
        return Moments(held, beside)

    @classmethod
    def none(cls) -> Moments:
        """Of a GPU with its state alone."""
        return cls(HeldByStage(), InFlight())

    @property
    def activation_bytes(self) -> float:
        """What waits for the backward pass."""
        return self.held.kept + self.held.kept_logits

    @property
    def max_bytes(self) -> float:
        """The fullest moment, and what is always there."""
        held, beside = self.held, self.beside
        loss = held.kept + max(held.loss, held.kept_logits) + beside.loss
        layer = held.kept + held.layer + beside.layer
        return max(loss, layer, beside.end) + beside.buffers
