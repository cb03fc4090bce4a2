"""The agent on the nodes: writes and restores real sharded torch checkpoints, and measures.

A run reads from top to bottom: `cli` takes the flags, `ranks` find each other and agree on a `request`, `campaign` goes
through configurations, `planning` fixes the files, memory and disk of one before the clock, `repetition` has `engines`
bring a `payload` to a `target` and back, `findings` turns the samples into the measurements that
`sizing.storage.measurement` defines, and `results` shows and keeps them. Before it, `preflight` looks whether a target
is fit; after it, `cleaning` removes what killed runs have left, `calibration` fits the model to results, `publishing`
brings them to the service. `host` is what the machine grants this process.
"""
