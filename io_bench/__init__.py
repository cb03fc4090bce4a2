"""The agent on the nodes: writes and restores real sharded torch checkpoints, and measures.

A run reads from top to bottom: `cli` takes the flags, `options` validates them, `placement`, `rendezvous`
and `process_group` join the ranks, `plan` fixes files, memory and disk before the clock, `campaign` runs
`engines` on a `payload` in a `run_directory` under a `stopwatch`, `findings` turns samples into the
measurements that `sizing.storage.measurement` defines, and `result_table` shows them. Before it, `preflight`
looks whether a target is fit; after it, `cleaning` finds by `manifest` what killed runs have left.
"""
