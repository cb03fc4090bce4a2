"""`ckpt-bench check`: whether a target is fit for a run, found out by trying, with nothing left behind.

`findings` are what was found and how bad it is; `probe` makes the place where things are tried, `direct_io`
and `directory` try them; `check` puts them together and `table` shows them.
"""
