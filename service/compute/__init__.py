"""Compute processes beside the server for heavy questions, within limits of time and memory."""
