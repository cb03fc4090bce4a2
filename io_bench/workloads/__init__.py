"""Workloads: checkpoints that stay beside a save, ranks that restore, and loads that run meanwhile.

restores          who reads what at a restore: replicas of one checkpoint, or other ranks than have saved
retention         which checkpoints stay on the target, and when the oldest goes
background_kinds  what else uses storage or node while a checkpoint is saved

Each is a table of objects by their names on the command line. A run may have one of each.
"""
