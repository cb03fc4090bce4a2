"""From a result document on disk to the service: kept in a spool until the service says that it has it."""
