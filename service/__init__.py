"""REST and database on top of `sizing`: the same types and answers, over HTTP."""
