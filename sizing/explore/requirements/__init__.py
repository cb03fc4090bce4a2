"""The inverse questions: from targets to the least storage, and to the intervals, that meet them."""
