"""The service from afar: `client` asks it in a few lines, `documents` are what both sides send beside sizing's types.

>>> from service_client.client import Client
>>> with Client("http://127.0.0.1:8000") as service:  # doctest: +SKIP
...     report = service.answer({"model": {"preset": "gpt2"}})
...     print(report.checkpoint.total_bytes)
"""
