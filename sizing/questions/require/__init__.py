"""The storage that meets the targets."""
