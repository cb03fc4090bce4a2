"""`ckpt-bench clean`: what runs that were killed have left in a target, found by manifest and removed file by file.

`leftovers` finds and judges, `removal` removes, `clean` is the verb, `table` shows.
"""
