"""The layouts with which a model fits a number of GPUs."""
