"""Scenarios side by side: which inputs differ, which figures follow, and which input made which difference."""
