"""Middleware, through which every request and every response passes."""
