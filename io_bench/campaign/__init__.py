"""Campaigns: which configurations are measured, and in which order. So far: one, repeated."""
