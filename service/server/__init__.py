"""The sockets and processes that serve the application."""
