"""Which layers of a scenario to compute again so that it fits its GPUs, and what that costs."""
