"""Which of the given inputs move the answer most: each varied alone."""
