"""How long a restart takes, by strategy."""
