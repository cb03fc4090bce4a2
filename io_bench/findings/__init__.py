"""What the samples say: measurements, the proofs behind them, and reasons to doubt them."""
