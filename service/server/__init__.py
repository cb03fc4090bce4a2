"""Server: sockets and processes that serve the application."""
