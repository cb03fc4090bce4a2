"""A target that is a directory: the files of a run, and what Linux offers for them."""
