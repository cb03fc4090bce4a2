"""Sweeps: lists and ranges for the fields of a Scenario, every combination answered, the best ones found."""
