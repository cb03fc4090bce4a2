"""The agent on the nodes: writes and restores real sharded torch checkpoints, and measures.

A run reads from top to bottom: `commands` take the flags, `ranks` find each other and agree on a `request`, `measure`
fixes the files, memory and disk of a configuration before the clock, and has `engines` bring a `payload` to a `target`
and back as its `workloads` say. `results` turn the samples into the measurements that `sizing.storage.measurement`
defines, show, keep and publish them, and fit the model to them. `checks` look whether a target is fit for a run, what
killed ones have left, and whether checkpoints are whole. `host` is what the machine grants this process.
"""
