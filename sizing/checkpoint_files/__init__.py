"""Sizes read off existing checkpoints: safetensors, torch DCP and torch.save, never by plain unpickling."""
