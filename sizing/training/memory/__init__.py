"""What a GPU holds while it trains: state, gathered weights, activations; and what would fit instead."""
