"""Which offer of storage is enough and costs least."""
