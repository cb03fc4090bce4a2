"""What FastAPI's OpenAPI document gets wrong or leaves out."""

from __future__ import annotations

from typing import Any

from service.problems import MEDIA_TYPE
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

_OWN_ERRORS = ("HTTPValidationError", "ValidationError")
"""The form in which FastAPI would answer invalid input, if `service.problems` let it."""


def correct(document: dict[str, Any]) -> None:
    """Tell the form of the errors, and show the answer to the reference scenario as an example."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"] = dict(_corrected(operation["responses"]))
    schemas = document["components"]["schemas"]
    for name in _OWN_ERRORS:
        schemas.pop(name, None)
    schemas["SizingReport"]["examples"] = [answer(scenario_from(REFERENCE_SCENARIO)).model_dump(mode="json")]


def _corrected(responses: dict[str, Any]) -> list[tuple[str, Any]]:
    """The responses without FastAPI's own errors, and with the media type of ours."""
    corrected = []
    for status, response in responses.items():
        content = response.get("content", {}).get("application/json", {})
        if int(status) < 400:
            corrected.append((status, response))
        elif not content["schema"]["$ref"].endswith(_OWN_ERRORS):
            corrected.append((status, response | {"content": {MEDIA_TYPE: content}}))
    return corrected
