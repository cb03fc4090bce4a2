"""`make mutation`: whether the tests would notice if `sizing` were wrong."""
