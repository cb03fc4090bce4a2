"""Who may do what, and in which turn: tokens, their scopes, and turns to store."""
