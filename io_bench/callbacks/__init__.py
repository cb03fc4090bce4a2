"""Callbacks of trainers that check a machine for the checkpoints of a training before it begins.

`huggingface.CheckBeforeTraining` and `lightning.CheckBeforeFit`; `before_training.py` is what both do.
"""
