"""What it costs: stall, lost work, the best interval, restore, what to require and to keep."""
