"""The terminal kit of the three programs: how they start, speak and end, which files they read, what they print."""
