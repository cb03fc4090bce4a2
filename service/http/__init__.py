"""HTTP of the service: bodies, JSON, the Accept header, problem documents."""
