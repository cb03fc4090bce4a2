"""The inverse questions: from targets to the min storage, and to the intervals, that meet them."""
