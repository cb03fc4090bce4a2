"""Sizes, stores, publishes and is refused, by the classes that openapi-python-client makes of the OpenAPI document."""

import json
import sys
from pathlib import Path

from generated.api.runs import list_runs, publish_run
from generated.api.scenarios import get_changes, save_scenario
from generated.api.sizings import create_sizing
from generated.api.storage_systems import create_storage_system
from generated.client import AuthenticatedClient
from generated.models import BenchmarkResult, NewScenario, NewStorageSystem, ProblemDocument, Scenario

address, token, result_file = sys.argv[1:]
client = AuthenticatedClient(base_url=address, token=token)
SCENARIO = {
    "model": {"preset": "llama-3.1-8b"},
    "parallelism": {"data": 8},
    "checkpoint": {"interval_seconds": "30min"},
}
scenario = Scenario.from_dict(SCENARIO)
report = create_sizing.sync(client=client, body=scenario)
saved = save_scenario.sync(client=client, body=NewScenario(name="of Python", scenario=scenario))
changes = get_changes.sync(saved.id, client=client)
create_storage_system.sync(client=client, body=NewStorageSystem(name="python", description="Lustre"))
result = BenchmarkResult.from_dict(json.loads(Path(result_file).read_text()))
run = publish_run.sync("python", client=client, body=result)
page = list_runs.sync("python", client=client, engine="torch-save", limit=5)
impossible = Scenario.from_dict({"model": {"preset": "llama-3.1-8b"}, "parallelism": {"tensor": 0}})
refused = create_sizing.sync(client=client, body=impossible)
assert isinstance(refused, ProblemDocument)
print(
    json.dumps(
        {
            "total_bytes": report.checkpoint.total_bytes,
            "saved": str(saved.id),
            "changed": len(changes.figures),
            "published": run.run_id,
            "listed": [each.measurements[0].bytes_per_second for each in page.items],
            "refused": [refused.status, refused.code, refused.errors[0].field],
        }
    )
)
