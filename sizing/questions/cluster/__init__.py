"""Many jobs on one storage system."""
