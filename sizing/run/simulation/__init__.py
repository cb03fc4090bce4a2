"""The same run played many times with random failures, beside the formula."""
