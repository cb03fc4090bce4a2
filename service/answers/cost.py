"""What a sizing costs, known before it runs: by how many tensors of unlike stages it has to lay out."""

from __future__ import annotations

from sizing.errors import InvalidInput
from sizing.layout.fit import check_fit
from sizing.layout.layout import trained_inventory
from sizing.layout.parallelism import Parallelism
from sizing.layout.resolved import resolved_model
from sizing.layout.stages import num_unlike_stages
from sizing.scenario import Scenario

MAX_HOLDINGS = 250
"""Of a layout that is answered in a thread. A holding takes 0.05 to 0.5 ms, so these about 0.1 s. Presets on evenly cut
pipelines have 10 to 150; 1,024 unlike stages of a dense model 9,000 (0.6 s), of experts 10,000 (1.6 s); 5,000 tensors
of a list take up to 10 s."""
MAX_LAYOUT_CHARACTERS = 8 * 1024
"""Of the text of a layout that is counted at all. A preset takes 200, a config.json 1,500; to resolve a longer one
takes longer than the layouts that are quick."""


def is_costly(scenario: Scenario, layout: str) -> bool:
    """Whether a scenario, whose layout has this text, is for the processes that compute: as a search for layouts is."""
    return scenario.leaves_degrees_open or len(layout) > MAX_LAYOUT_CHARACTERS or num_holdings(scenario) > MAX_HOLDINGS


def num_holdings(scenario: Scenario) -> int:
    """Unlike stages x classes of tensors, as saved and as restored: what the time of an answer grows with.

    0 where the answer is a refusal, which comes before the work.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> num_holdings(scenario_from(REFERENCE_SCENARIO))
    42
    """
    restored = scenario.checkpoint.restore_parallelism
    degrees = [scenario.parallelism, *([] if restored is None else [restored])]
    try:
        return sum(_num_held(scenario, each) for each in degrees)
    except InvalidInput:
        return 0


def _num_held(scenario: Scenario, parallelism: Parallelism) -> int:
    model = resolved_model(scenario.model, scenario.training, parallelism)
    cluster = scenario.cluster.without_counts
    check_fit(model, parallelism, cluster, scenario.training.framework)
    inventory = trained_inventory(model.inventory, scenario.training)
    return len(inventory) * num_unlike_stages(inventory, parallelism, num_layers=model.num_layers)
