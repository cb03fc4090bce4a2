"""Who computes the chunks of heavy questions, where that is not the process that asks."""
