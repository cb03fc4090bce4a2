"""Compressed gradients: what ranks send, keep and save."""
