"""Published training techniques, and what each changes."""
