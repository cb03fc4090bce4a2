"""Access: which token may do what, the sessions of people, and the turns of requests that store."""
