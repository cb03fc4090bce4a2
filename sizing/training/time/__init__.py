"""Time of a step: computation by part, communication, bubble, optimizer."""
