"""Campaigns: which configurations are measured, in which order, how often, and within which caps."""
