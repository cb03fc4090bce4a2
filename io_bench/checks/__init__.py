"""Checks: of a target before a run, of checkpoints after one, and of what sizing says of them.

preflight    `ckpt-bench check`: whether a target is fit for a run, found out by trying, with nothing left behind.
             `preflight_checks` has what is tried, in directories and in object stores
clean        `ckpt-bench clean`: what killed runs have left in a target, found by manifest and removed file by file
verify       `ckpt-bench verify`: whether a checkpoint is whole and readable. What files and headers say is checked
             first (`structure`), then every byte is read (`file_regions`) and held against the checksums there are
observation  `ckpt-bench observe`: what the checkpoints that a real run has left say of its saves. They are listed and
             gathered by step and rank (`observed_saves`), set in the order of time (`observation_timeline`), and held
             against what sizing says
validation   `ckpt-bench validate`: tiny models trained for one step and saved for real, beside what sizing says of them

No tensor is read to observe, and no pickle is run.
"""
