"""Saves of less than everything: compressed, as deltas, or with some of the experts; and what that is worth."""
