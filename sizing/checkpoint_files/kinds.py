"""The words for what stands in a checkpoint: its containers, the parts of the state, and the small state beside it."""

from __future__ import annotations

from typing import Literal

Format = Literal["safetensors", "torch-dcp", "torch-save", "orbax"]

Part = Literal["weights", "master", "moments", "other"]
PARTS: tuple[Part, ...] = ("weights", "master", "moments", "other")

SmallState = Literal["random state", "scheduler", "data loader", "settings"]
SMALL_STATES: tuple[SmallState, ...] = ("random state", "scheduler", "data loader", "settings")

ADAPTER = "PEFT adapter"
"""The layout of a checkpoint whose weights are those of an adapter alone."""
