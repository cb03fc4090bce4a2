"""Pipelines over unlike devices: layers dealt so that no stage waits for a slow one."""
