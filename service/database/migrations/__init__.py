"""The history of the schema, one step per file in `versions`."""
