"""From model, optimizer and parallel layout to checkpoint bytes, bandwidth, overhead and capacity."""

__version__ = "0.1.0"
