"""The REST service: sizings, catalogs and saved scenarios over HTTP.

`cli` starts it with `settings`; `app` puts `routes` together; `problems` turns every error into problem+json;
`database` keeps what is stored, `access` says who may store it. The calculation is `sizing`'s alone.
"""
