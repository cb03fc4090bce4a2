"""Corrections of FastAPI's OpenAPI document."""

from __future__ import annotations

import functools
from typing import Any

from pydantic import BaseModel

from service.http.problems import MEDIA_TYPE
from service.routes.runs import RESULT_EXAMPLE
from sizing.checkpoint_files.sent import REFERENCE_FILE, SentFile, contents_of_sent
from sizing.cluster.node import node_catalog
from sizing.frameworks.registry import catalog_frameworks
from sizing.importers import ImportRequest, import_config_files
from sizing.importers.request import REFERENCE_IMPORT
from sizing.layout.formats.registry import catalog_formats
from sizing.model.catalog import catalog
from sizing.offer_tables import REFERENCE_OFFER_TABLE, OfferTableRequest, answer_offer_table
from sizing.questions.registry import QUESTIONS
from sizing.run.failure_rates import published_rates
from sizing.storage.catalog import storage_profiles
from sizing.training.techniques import techniques
from sizing.validation.reference_runs import reference_run
from sizing.validation.validation_report import validation_report

_OWN_ERRORS = ("HTTPValidationError", "ValidationError")
"""The form in which FastAPI would answer invalid input, if `service.middleware.exception_handlers` let it."""


def correct(document: dict[str, Any]) -> None:
    """Describe the form of the errors, and add examples of answers."""
    _name_plainly(document)
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"] = _correct_responses(operation["responses"])
    schemas = document["components"]["schemas"]
    for name in _OWN_ERRORS:
        schemas.pop(name, None)
    for name, example in _examples().items():
        schemas[name]["examples"] = [example]
    result = document["paths"]["/v1/jobs/{job_id}/result"]["get"]["responses"]["200"]["content"]["application/json"]
    result["examples"] = {"sweep": {"summary": "Report of a sweep", "value": schemas["SweepReport"]["examples"][0]}}
    for name, schema in schemas.items():
        if name.endswith("Page"):
            item = schema["properties"]["items"]["items"]["$ref"].rpartition("/")[2]
            schema["examples"] = [{"items": schemas[item]["examples"], "next": None}]


def _name_plainly(document: dict[str, Any]) -> None:
    """Give each schema one name, as generators of clients name a class by its key or its title.

    pydantic writes a type that is read otherwise than it is written as `X-Input` and `X-Output`.
    """
    schemas = document["components"]["schemas"]
    plain_names = {name: _drop_suffix(name) for name in schemas if _drop_suffix(name) != name}
    for name, plain in plain_names.items():
        schemas[plain] = schemas.pop(name) | {"title": plain}
    prefix = "#/components/schemas/"
    _refer_anew(document, {f"{prefix}{name}": f"{prefix}{plain}" for name, plain in plain_names.items()})


def _drop_suffix(name: str) -> str:
    """Return a schema's name without pydantic's suffix.

    >>> _drop_suffix("Adapters-Input"), _drop_suffix("Adapters-Output"), _drop_suffix("Health")
    ('GivenAdapters', 'Adapters', 'Health')
    """
    return f"Given{name.removesuffix('-Input')}" if name.endswith("-Input") else name.removesuffix("-Output")


def _refer_anew(part: Any, references: dict[str, str]) -> None:
    """Replace references anywhere in a document."""
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _refer_anew(inner, references)
    if isinstance(part, dict) and part.get("$ref") in references:
        part["$ref"] = references[part["$ref"]]


@functools.cache
def _examples() -> dict[str, Any]:
    """Return examples of answers that are too long to write by hand, or that are defined elsewhere, by their schemas.

    They are made once in a process: to answer each question takes seconds.
    """
    schema = {"schema_revision": "r0010", "accepted_from": "r0010", "known_to": "r0010", "serves_from": "r0005"}
    examples = {"BenchmarkResult": RESULT_EXAMPLE, "Health": {"status": "ok"}, "Readiness": {"status": "ok"} | schema}
    entries: dict[str, BaseModel] = {
        "CheckpointContents": contents_of_sent(SentFile.model_validate(REFERENCE_FILE)),
        "ImportReport": import_config_files(ImportRequest.model_validate(REFERENCE_IMPORT)),
        "OfferTable": answer_offer_table(OfferTableRequest.model_validate(REFERENCE_OFFER_TABLE)),
        "CatalogModel": next(iter(catalog().values())),
        "CatalogNode": next(iter(node_catalog().values())),
        "CatalogProfile": next(iter(storage_profiles().values())),
        "CatalogFormat": catalog_formats()[0],
        "CatalogFramework": catalog_frameworks()[0],
        "PublishedRate": published_rates()["rsc-1"],
        "Technique": techniques()[0],
        "ValidationReport": validation_report([*reference_run()]),
    }
    for question in (entry.question for entry in QUESTIONS.values()):
        request = question.parse_request(question.quick_example or question.example)
        entries[question.report.__name__] = question.answer_request(request).report
    return examples | {name: shown.model_dump(mode="json") for name, shown in entries.items()}


def _correct_responses(responses: dict[str, Any]) -> dict[str, Any]:
    """Return the responses without FastAPI's own errors, and with the media type of the service's errors."""
    correct: dict[str, Any] = {}
    for status, response in responses.items():
        content = response.get("content", {}).get("application/json", {})
        if int(status) < 400:
            correct[status] = response
        elif not content["schema"]["$ref"].endswith(_OWN_ERRORS):
            correct[status] = response | {"content": {MEDIA_TYPE: content}}
    return correct
