"""Payload: the tensors that a rank saves, and the bytes in them."""

from typing import Any

State = dict[str, Any]
"""A nested state dict: tensors and plain values, as `torch.save` takes it."""
