"""What each published technique would change in a scenario."""
