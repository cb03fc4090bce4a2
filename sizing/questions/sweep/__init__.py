"""Every combination of the values of some fields."""
