"""Guesses: how far the plausible ranges of assumed values, and the alternatives of choices, move the answer."""
