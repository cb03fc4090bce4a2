"""The heavy questions as functions from question to JSON, for the processes of `service.compute`."""

from __future__ import annotations

from sizing.explore.clusters.answer import cluster_report
from sizing.explore.clusters.scenario import ClusterScenario
from sizing.explore.requirements.answer import requirements_of
from sizing.scenario import Scenario


def requirements_json(scenario: Scenario) -> bytes:
    """The RequirementsReport of a scenario."""
    return requirements_of(scenario).model_dump_json().encode()


def cluster_json(scenario: ClusterScenario) -> bytes:
    """The ClusterReport of many jobs."""
    return cluster_report(scenario).model_dump_json().encode()
