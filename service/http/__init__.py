"""HTTP as it comes and goes: bodies, JSON, the Accept header, problem documents."""
