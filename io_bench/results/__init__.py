"""What is shown and kept: the result document, its tables, and the live view."""
