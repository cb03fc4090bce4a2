"""Weights in Hugging Face format beside the checkpoint: who writes them, how long that takes."""
