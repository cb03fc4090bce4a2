"""The files of a scenario's checkpoint."""
