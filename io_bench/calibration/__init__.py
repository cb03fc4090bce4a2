"""`ckpt-bench calibrate`: what storage can do, from the results of many runs."""
