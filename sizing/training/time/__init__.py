"""How long a step takes: computation by part, communication, bubble, optimizer."""
