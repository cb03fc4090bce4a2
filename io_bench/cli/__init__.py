"""`ckpt-bench`: the command line of the agent."""
