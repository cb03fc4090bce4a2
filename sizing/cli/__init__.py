"""The command line `ckpt-size`."""
