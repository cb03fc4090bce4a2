"""Commands of `ckpt-serve`: one module for each thing that they are about."""
