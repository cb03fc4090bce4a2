"""What FastAPI's OpenAPI document gets wrong or leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from service.http.problems import MEDIA_TYPE
from service.routes.runs import RESULT_EXAMPLE
from sizing.cluster.node import node_catalog
from sizing.explore.clusters.cluster_answer import answer_cluster
from sizing.explore.clusters.cluster_scenario import REFERENCE_CLUSTER
from sizing.explore.comparisons.comparison import compare
from sizing.explore.comparisons.comparison_request import REFERENCE_COMPARISON
from sizing.explore.layouts.layouts_request import REFERENCE_SEARCH
from sizing.explore.layouts.ranking import find_layouts
from sizing.explore.requirements.solver import requirements_of
from sizing.explore.scenario_simulation import REFERENCE_SIMULATION, ScenarioSimulation, simulated
from sizing.explore.sensitivities.sensitivity import sensitivity
from sizing.explore.sensitivities.sensitivity_request import REFERENCE_SENSITIVITY
from sizing.explore.sweeps.sweep import sweep
from sizing.explore.sweeps.sweep_request import REFERENCE_SWEEP
from sizing.model.catalog import catalog
from sizing.report import answer
from sizing.run.failure_rates import published_rates
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.storage.catalog import storage_profiles
from sizing.training.techniques import techniques
from sizing.validation.reference_runs import reference_run
from sizing.validation.validation_report import validation_report

_OWN_ERRORS = ("HTTPValidationError", "ValidationError")
"""The form in which FastAPI would answer invalid input, if `service.middleware.exception_handlers` let it."""


def correct(document: dict[str, Any]) -> None:
    """Tell the form of the errors, and show the answer to the reference scenario as an example."""
    for path in document["paths"].values():
        for operation in path.values():
            operation["responses"] = dict(_corrected(operation["responses"]))
    schemas = document["components"]["schemas"]
    for name in _OWN_ERRORS:
        schemas.pop(name, None)
    for name, example in _examples():
        schemas[name]["examples"] = [example]
    for name, schema in schemas.items():
        if name.endswith("Page"):
            item = schema["properties"]["items"]["items"]["$ref"].rpartition("/")[2]
            schema["examples"] = [{"items": schemas[item]["examples"], "next": None}]


def _examples() -> Iterator[tuple[str, Any]]:
    """Answers that are too long to write by hand, or that stand elsewhere."""
    yield "BenchmarkResult", RESULT_EXAMPLE
    yield "Health", {"status": "ok"}
    scenario = scenario_from(REFERENCE_SCENARIO)
    reports: dict[str, BaseModel] = {
        "SizingReport": answer(scenario),
        "RequirementsReport": requirements_of(scenario),
        "SimulationReport": simulated(ScenarioSimulation.model_validate(REFERENCE_SIMULATION)),
        "SweepReport": sweep(REFERENCE_SWEEP),
        "SensitivityReport": sensitivity(REFERENCE_SENSITIVITY),
        "ComparisonReport": compare(REFERENCE_COMPARISON),
        "LayoutsReport": find_layouts(REFERENCE_SEARCH),
        "ClusterReport": answer_cluster(REFERENCE_CLUSTER | {"horizon_seconds": "1d"}),
        "CatalogModel": next(iter(catalog().values())),
        "CatalogNode": next(iter(node_catalog().values())),
        "CatalogProfile": next(iter(storage_profiles().values())),
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
