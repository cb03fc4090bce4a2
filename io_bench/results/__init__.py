"""Results: measurements from samples, proofs and doubts of them, and what is shown, kept, published and fitted."""
