"""What can be asked of scenarios: a folder for each question, and the registry that every front end walks over."""
