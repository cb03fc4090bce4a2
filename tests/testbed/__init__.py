"""Real storage, networks and schedulers on one machine, for tests, benchmarks and demonstrations.

Everything is a context manager that takes what it started away again, by process id. Nodes are namespaces
that die with the process that made them, also when that is killed, and whatever ran or was mounted in
them goes too. Nothing here imports pytest: scripts use it as tests do. `tests/conftest.py` makes fixtures of it.

`processes` starts servers and waits for them, `nodes` makes machines of namespaces, `network` joins them with
links of a known rate, `file_systems` makes disks to fill and to throttle, `glusterfs` is a parallel file
system, `slurm` a cluster that schedules, `launch` starts ranks on nodes.
"""
