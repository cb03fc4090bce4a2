"""Parameters of published architectures."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.model import catalog, num_parameters
from sizing.model.catalog import CatalogModel
from sizing.model.formulas import megatron_gpt_parameters
from sizing.model.inventory import inventory_of
from sizing.published import published
from sizing.validation.comparison import EXACT, Comparison


def parameter_counts() -> Iterator[Comparison]:
    """Every architecture of the catalog whose exact count is published."""
    for row in published("model_parameters")["models"]:
        if row["name"] in catalog():
            yield Comparison(
                f"parameters of {row['name']}",
                _count(catalog()[row["name"]]),
                row["num_parameters"],
                EXACT,
                "Exact counts of the published architectures",
            )


def megatron_table() -> Iterator[Comparison]:
    """The paper's table, by its formula and by inventory."""
    by_shape = {(m.architecture.hidden_size, m.architecture.num_layers): m for m in catalog().values()}
    for row in published("megatron_table1")["rows"]:
        hidden, layers, truth = row["hidden_size"], row["num_layers"], row["num_parameters_by_formula"]
        label, source = f"{row['printed_billion_parameters']}B", "Narayanan et al. 2021, Table 1"
        formula = megatron_gpt_parameters(
            num_layers=layers, hidden_size=hidden, vocab_size=51_200, sequence_length=2_048
        )
        yield Comparison(f"{label} by the paper's formula", formula, truth, EXACT, source)
        count = _count(by_shape[hidden, layers])
        yield Comparison(f"{label} inventory less final norm 2h", count - 2 * hidden, truth, EXACT, source)


def _count(model: CatalogModel) -> int:
    return num_parameters(inventory_of(model.architecture))
