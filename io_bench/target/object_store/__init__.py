"""Targets that are no directory: objects in a bucket, written and read in parts, many at a time.

`url_target` takes a URL and checks it, `run_prefix` keeps the files of one run under a prefix, `upload` and `download`
move one object, and `store` and `s3` are the few verbs that these need of fsspec.
"""
