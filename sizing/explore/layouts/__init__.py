"""The layouts of a model on a number of GPUs: which fit their memory, and what each asks of the storage."""
