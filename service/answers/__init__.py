"""Answers to questions: at once beside the event loop, or as functions for the compute processes."""
