"""A run's place in a target from beginning to end: who owns it, that its owner lives, and how it is removed."""
