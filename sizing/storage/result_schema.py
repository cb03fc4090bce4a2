"""The JSON Schema of the agent's result document, as it is published in `docs/benchmark-result.schema.json`."""

from __future__ import annotations

from typing import Any

from sizing.storage.measurement import BenchmarkResult

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def result_schema() -> dict[str, Any]:
    """What a result document may hold; its `schema_version` is 1.

    >>> result_schema()["properties"]["schema_version"]["const"], result_schema()["$schema"]
    (1, 'https://json-schema.org/draft/2020-12/schema')
    """
    return {"$schema": DIALECT, **BenchmarkResult.model_json_schema()}
