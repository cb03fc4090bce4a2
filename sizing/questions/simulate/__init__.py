"""The run with random failures, many times."""
