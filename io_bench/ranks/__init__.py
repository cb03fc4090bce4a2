"""Ranks: they find each other, agree, wait, and end together."""
