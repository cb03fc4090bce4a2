"""The inputs that move the answer most."""
