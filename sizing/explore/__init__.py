"""What if: many jobs on one storage system, the inverse questions, sweeps, comparisons."""
