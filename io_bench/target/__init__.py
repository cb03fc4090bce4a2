"""Where it is written: a run's own files inside the target, from making them to removing them."""
