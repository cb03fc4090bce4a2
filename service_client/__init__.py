"""Client of the service, in `client`; `documents`: types that client and service share, beside sizing's.

>>> from service_client.client import Client
>>> with Client("http://127.0.0.1:8000") as service:  # doctest: +SKIP
...     report = service.answer({"model": {"preset": "gpt2"}})
...     print(report.checkpoint.total_bytes)
"""
