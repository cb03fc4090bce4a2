"""Pipeline stages on nodes of several kinds."""
