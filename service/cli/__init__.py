"""`ckpt-serve`: one module for each thing that its commands are about."""
