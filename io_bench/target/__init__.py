"""Where it is written: a run's own files inside the target, from making them to removing them.

`target` and `run_files` say what any target answers, `directory` and `object_store` are those that there are, `address`
tells them apart, `lifecycle` makes a run's place in one and takes it away again.
"""
