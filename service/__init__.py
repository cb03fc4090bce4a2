"""REST and database on top of `sizing`: the same types and answers, over HTTP.

A request reads from top to bottom: `cli` starts a `server`, which serves the `app`; `middleware` lets a request in and
out; `routes` say what it asks, `access` who may, `http` what its body is; `answers` come at once, or from the processes
of `compute`; `reports` are answers to read and print, made with the templates in `pages`; `database` keeps what is
stored. `telemetry` is what the service tells of itself.
"""
