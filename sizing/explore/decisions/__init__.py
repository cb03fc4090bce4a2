"""Which offer is enough, what it costs with the GPU time that it loses, and with which settings it costs least."""
