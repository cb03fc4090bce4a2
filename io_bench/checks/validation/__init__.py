"""Predicted against real: tiny models trained for one step and saved for real, beside what sizing says of them."""
