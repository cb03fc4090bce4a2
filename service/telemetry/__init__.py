"""What the service tells of itself: logs and metrics."""
