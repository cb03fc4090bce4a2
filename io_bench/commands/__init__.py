"""Commands: the verbs of `ckpt-bench`, from their flags to what they show.

`campaign` goes through configurations, for one `run` or all of a `scan`; `journal` keeps what a scan has measured.
"""
