"""What FastAPI's OpenAPI document gets wrong or leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from service.http.problems import MEDIA_TYPE
from service.routes.runs import RESULT_EXAMPLE
from sizing.checkpoint_files.sent import REFERENCE_FILE, SentFile, contents_of_sent
from sizing.cluster.node import node_catalog
from sizing.explore.clusters.cluster_answer import answer_cluster
from sizing.explore.clusters.cluster_scenario import REFERENCE_CLUSTER
from sizing.explore.comparisons.comparison import compare
from sizing.explore.comparisons.comparison_request import REFERENCE_COMPARISON
from sizing.explore.decisions.decision import decide
from sizing.explore.decisions.decision_request import REFERENCE_DECISION
from sizing.explore.layouts.layouts_request import REFERENCE_SEARCH
from sizing.explore.layouts.ranking import find_layouts
from sizing.explore.manifests.manifest_report import manifest_report
from sizing.explore.manifests.manifest_request import REFERENCE_MANIFEST, ManifestRequest
from sizing.explore.rematerializations.rematerialization import rematerialization
from sizing.explore.rematerializations.rematerialization_request import REFERENCE_REMATERIALIZATION
from sizing.explore.requirements.solver import requirements_of
from sizing.explore.scenario_simulation import REFERENCE_SIMULATION, ScenarioSimulation, simulated
from sizing.explore.sensitivities.sensitivity import sensitivity
from sizing.explore.sensitivities.sensitivity_request import REFERENCE_SENSITIVITY
from sizing.explore.stages.stages import stages
from sizing.explore.stages.stages_request import REFERENCE_STAGES
from sizing.explore.sweeps.sweep import sweep
from sizing.explore.sweeps.sweep_request import REFERENCE_SWEEP
from sizing.explore.techniques.techniques_report import (
    REFERENCE_TECHNIQUES,
    techniques_of,
    techniques_request_from,
)
from sizing.layout.formats.catalog import catalog_formats
from sizing.model.catalog import catalog
from sizing.report import answer
from sizing.run.failure_rates import published_rates
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.storage.catalog import storage_profiles
from sizing.training.techniques.catalog import techniques
from sizing.validation.reference_runs import reference_run
from sizing.validation.validation_report import validation_report

_OWN_ERRORS = ("HTTPValidationError", "ValidationError")
"""The form in which FastAPI would answer invalid input, if `service.middleware.exception_handlers` let it."""


def correct(document: dict[str, Any]) -> None:
    """Tell the form of the errors, and show the answer to the reference scenario as an example."""
    _name_plainly(document)
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"] = dict(_corrected(operation["responses"]))
    schemas = document["components"]["schemas"]
    for name in _OWN_ERRORS:
        schemas.pop(name, None)
    for name, example in _examples():
        schemas[name]["examples"] = [example]
    result = document["paths"]["/v1/jobs/{job_id}/result"]["get"]["responses"]["200"]["content"]["application/json"]
    result["examples"] = {"sweep": {"summary": "Report of a sweep", "value": schemas["SweepReport"]["examples"][0]}}
    for name, schema in schemas.items():
        if name.endswith("Page"):
            item = schema["properties"]["items"]["items"]["$ref"].rpartition("/")[2]
            schema["examples"] = [{"items": schemas[item]["examples"], "next": None}]


def _name_plainly(document: dict[str, Any]) -> None:
    """Give each schema one name, for generators of clients name a class by its key or by its title.

    pydantic writes a type that is read otherwise than it is written as `X-Input` and `X-Output`.
    """
    schemas = document["components"]["schemas"]
    plain = {name: _plain(name) for name in schemas if _plain(name) != name}
    for name, chosen in plain.items():
        schemas[chosen] = schemas.pop(name) | {"title": chosen}
    prefix = "#/components/schemas/"
    _refer_anew(document, {f"{prefix}{name}": f"{prefix}{chosen}" for name, chosen in plain.items()})


def _plain(name: str) -> str:
    """A name of a schema without marks.

    >>> _plain("Adapters-Input"), _plain("Adapters-Output"), _plain("Health")
    ('GivenAdapters', 'Adapters', 'Health')
    """
    return f"Given{name.removesuffix('-Input')}" if name.endswith("-Input") else name.removesuffix("-Output")


def _refer_anew(part: Any, references: dict[str, str]) -> None:
    """Change references, wherever they stand."""
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _refer_anew(inner, references)
    if isinstance(part, dict) and part.get("$ref") in references:
        part["$ref"] = references[part["$ref"]]


def _examples() -> Iterator[tuple[str, Any]]:
    """Answers that are too long to write by hand, or that stand elsewhere."""
    yield "BenchmarkResult", RESULT_EXAMPLE
    yield "Health", {"status": "ok"}
    schema = {"schema_revision": "r0008", "accepted_from": "r0008", "known_to": "r0008", "serves_from": "r0005"}
    yield "Readiness", {"status": "ok"} | schema
    scenario = scenario_from(REFERENCE_SCENARIO)
    reports: dict[str, BaseModel] = {
        "SizingReport": answer(scenario),
        "RequirementsReport": requirements_of(scenario),
        "SimulationReport": simulated(ScenarioSimulation.model_validate(REFERENCE_SIMULATION)),
        "SweepReport": sweep(REFERENCE_SWEEP),
        "SensitivityReport": sensitivity(REFERENCE_SENSITIVITY),
        "TechniquesReport": techniques_of(techniques_request_from(REFERENCE_TECHNIQUES)),
        "ComparisonReport": compare(REFERENCE_COMPARISON),
        "DecisionReport": decide(REFERENCE_DECISION),
        "LayoutsReport": find_layouts(REFERENCE_SEARCH),
        "RematerializationReport": rematerialization(REFERENCE_REMATERIALIZATION),
        "StagesReport": stages(REFERENCE_STAGES),
        "ManifestReport": manifest_report(
            ManifestRequest.model_validate(REFERENCE_MANIFEST), scenario, answer(scenario)
        ),
        "CheckpointContents": contents_of_sent(SentFile.model_validate(REFERENCE_FILE)),
        "ClusterReport": answer_cluster(REFERENCE_CLUSTER | {"horizon_seconds": "1d"}),
        "CatalogModel": next(iter(catalog().values())),
        "CatalogNode": next(iter(node_catalog().values())),
        "CatalogProfile": next(iter(storage_profiles().values())),
        "CatalogFormat": catalog_formats()[0],
        "PublishedRate": published_rates()["rsc-1"],
        "Technique": techniques()[0],
        "ValidationReport": validation_report([*reference_run()]),
    }
    for name, report in reports.items():
        yield name, report.model_dump(mode="json")


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
