"""Memory of a GPU in training: state, gathered weights and activations; and layouts that fit instead."""
