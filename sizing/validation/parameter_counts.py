"""Comparisons of parameter counts of published architectures."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.model import catalog, num_parameters
from sizing.model.catalog import CatalogModel
from sizing.published import published
from sizing.validation.comparison import EXACT, Comparison, Source

_COUNTED = {
    "Hugging Face safetensors total": Source(
        "observation", "Parameters in published files: the hub's safetensors totals, from public copies"
    ),
    "Ollama general.parameter_count": Source(
        "observation", "Parameters in published files: Ollama's general.parameter_count, from public copies"
    ),
    "PyPI keras-hub": Source("tool", "Parameters that keras-hub 0.32.0 lists for its presets"),
    "keras-team/keras-hub": Source("tool", "Parameters that keras-hub lists for its presets, in its repository"),
    "parameters ": Source("tool", "Parameters that others counted in models that they loaded, from public copies"),
    "a published table": Source("tool", "A published table of parameter counts, from a public copy"),
}
"""Sources, by the first words of the source of a count in the model catalog."""

_BUILT = Source("arithmetic", "Parameters of published architectures, counted tensor by tensor")
_MEGATRON = Source("arithmetic", "Narayanan et al. 2021, arXiv 2104.04473, Table 1 and equation 2")


def parameter_counts() -> Iterator[Comparison]:
    """Compare every catalog model with a published count, and every architecture counted on its own."""
    for model in catalog().values():
        if model.num_parameters is not None:
            yield _source(model).compare(
                f"parameters of {model.name}", _count(model), model.num_parameters, within=EXACT
            )
    for row in published("model_parameters")["models"]:
        if row["name"] in catalog():
            count = _count(catalog()[row["name"]])
            yield _BUILT.compare(f"parameters of {row['name']}", count, row["num_parameters"], within=EXACT)


def megatron_table() -> Iterator[Comparison]:
    """Compare the paper's table, by its formula and by inventory."""
    by_shape = {(a.hidden_size, a.num_layers): m for m in catalog().values() if (a := m.architecture) is not None}
    for row in published("megatron_table1")["rows"]:
        hidden, layers, by_formula = row["hidden_size"], row["num_layers"], row["num_parameters_by_formula"]
        label = f"{row['printed_billion_parameters']}B"
        formula = megatron_gpt_parameters(
            num_layers=layers, hidden_size=hidden, vocab_size=51_200, sequence_length=2_048
        )
        yield _MEGATRON.compare(f"{label} by the paper's formula", formula, by_formula, within=EXACT)
        count = _count(by_shape[hidden, layers])
        yield _MEGATRON.compare(f"{label} inventory less final norm 2h", count - 2 * hidden, by_formula, within=EXACT)


def megatron_gpt_parameters(*, num_layers: int, hidden_size: int, vocab_size: int, sequence_length: int) -> int:
    """Return the parameters of a Megatron GPT by the paper's formula, P = 12 l h^2 (1 + 13/(12 h) + (V + s)/(12 l h)).

    A second route to what the inventory counts.
    Symbols: l layers, h hidden size, V vocabulary, s sequence length (rows of the position table).
    Source: Narayanan et al. 2021, arXiv 2104.04473, equation 2. It leaves out the final LayerNorm, 2 h.

    >>> megatron_gpt_parameters(num_layers=128, hidden_size=25600, vocab_size=51200, sequence_length=2048)
    1008038707200
    """
    layer = 12 * hidden_size**2 + 13 * hidden_size
    return num_layers * layer + (vocab_size + sequence_length) * hidden_size


def _source(model: CatalogModel) -> Source:
    """Return who counted a catalog model. A new kind of source must first be judged, in `_COUNTED`."""
    named = model.num_parameters_source or ""
    return next(source for start, source in _COUNTED.items() if named.startswith(start))


def _count(model: CatalogModel) -> int:
    return num_parameters(model.inventory)
