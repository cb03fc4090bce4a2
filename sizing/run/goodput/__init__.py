"""What share of the time is useful work: for one place to save to, for several, and at the best interval."""
