"""`ckpt-bench clean`: what runs that were killed have left in a target, found by manifest and removed file by file.

`target.lifecycle.places` finds and judges, `clean` is the verb: it shows them and removes.
"""
