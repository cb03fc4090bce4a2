"""`ckpt-bench mlperf`: the checkpoint workloads of MLPerf Storage, written and read by the agent.

`workload` says which tensors each process writes, `rounds` puts them into the files of the benchmark, saves and
restores, `summary` sums up and writes what the benchmark's reporting tool reads. The results are comparable with the
benchmark's. Valid ones come only from the benchmark itself.
"""
