"""The machine under this process: the CPUs and the memory that it may use, by affinity and control groups."""
