"""Shapes of a workload: what is retained beside a save, who restores what, and what runs meanwhile.

restores    who reads what of a checkpoint that replicas share, and what they pass on to each other
retention   which checkpoints stay on the target, and when the oldest goes
company     what else uses storage or node while a checkpoint is saved

Each is a table of objects by their names on the command line. A run may have one of each.
"""
