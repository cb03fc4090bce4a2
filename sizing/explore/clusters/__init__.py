"""Many jobs on one storage system: how often they collide, what they wait for, what to buy."""
