"""The questions of sizing as tools of the Model Context Protocol, for programs that ask in a person's place.

`tools` makes a tool of each question in the registry, and of catalogs, fields and config files; `server` speaks the
protocol by its official library; `main` is the command `ckpt-mcp`, on standard input and output or by HTTP.
"""
