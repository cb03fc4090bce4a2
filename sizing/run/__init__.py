"""What a run costs: stall, lost work, the best interval, restore, what to require and to keep.

The modules in the order of the calculation, as a chapter to read from top to bottom:

1. What the scenario says: `checkpoint` with its tiers, `interval_steps`, `reduction`, `export`, `failures` with the
   published `failure_rates`, `retention`, `targets`, `costs`.
2. What is to be saved and read: `workload` of a layout, the `read_plan` of each way to restore, the files of a
   `universal_checkpoint`, the `storage_contents` that saves leave, and the `host_memory` that saves and restores take.
3. How long it takes: `write` for a save, `restore` for a restart, `tiers` for each tier, the main storage among them,
   `publication` for weights on their way to inference.
4. What failures make of it: `levels` of saving and the formulas of their best interval, `goodput` of one level and of
   several, `availability` of nodes, the `failure_process` of a run, what `recovery_strategies` make of it, `recovery`.
5. All of it at once: `timing` for what decides the targets, `evaluation` for every figure, in blocks of the report
   whose `figures` may be arrays: `interval`, `tier_rows`, `reduction_effect`, `required`. `storage_warnings` say
   what to know of the rates.
6. What would be better: `request` sets fields anew, `solver` finds what meets the targets, `remedies` says it in words,
   `host_memory_remedies` what makes saves and restores fit.
7. What ends a job: `job_limits`.
8. The same run by chance: `monte_carlo`, `simulation`.
"""
