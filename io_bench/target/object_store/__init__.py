"""Targets that are no directory: objects in a bucket, written and read in parts, many at a time.

`url_target` takes a URL, checks it, and keeps the files of one run under a prefix; `transfers` move one object;
`store`, `s3` and `clouds` are the few verbs that these need of fsspec.
"""
