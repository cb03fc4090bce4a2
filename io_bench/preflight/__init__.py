"""`ckpt-bench check`: whether a target is fit for a run, found out by trying, with nothing left behind.

`check_options` are what is asked; `probe` makes the place where things are tried, `directory_checks`, `alignment` and
`object_store_checks` try them; `findings` are what was found and how bad it is; `check` puts it all together.
"""
