"""`ckpt-bench verify`: whether a checkpoint is whole and readable.

What files and headers say is checked first (`structure`), then every byte is read (`reading`) and held against the
checksums that there are: those of zip records (`zip_records`), or of a file that was made at the save (`checksums`).
No pickle is run.
"""
