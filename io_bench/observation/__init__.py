"""`ckpt-bench observe`: what the checkpoints that a real run has left say of its saves.

Files with their sizes and times are listed (`file_times`), gathered by step and rank (`saves`), set in the order of
time (`timeline`), where stops show (`stops`), and held against what sizing says (`model`). No tensor is read and no
pickle is run.
"""
