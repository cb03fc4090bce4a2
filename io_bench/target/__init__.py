"""Targets: a run's own files inside a target, from making them to removing them.

`target` says what any target answers, `directory` and `object_store` are those that there are, `spread` is several of
one kind, `address` tells them apart. `places` and `run_place` make a run's place in one and take it away again;
`request_log` keeps what each request to it took.
"""
