"""Comparisons of optimizer state: bytes per parameter, as really saved."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.frameworks import saved_parts
from sizing.model import Architecture
from sizing.model.inventory import inventory_of, num_parameters
from sizing.published import published
from sizing.state import Training
from sizing.state.optimizers import Optimizer
from sizing.validation.comparison import Comparison, Source

_SAVED = Source("observation", "Optimizer states of a 46M Llama saved with torch 2.13 for this comparison: bytes")
_WITHIN_BYTES, _WITHIN_FRACTION = 0.002, 0.005
"""Headers and step counters of the files, which are not predicted: about 90 kB for 46M parameters."""

MEASURED_OPTIMIZERS: dict[Optimizer, str] = {
    "adam": "adamw",
    "adamw": "adamw",
    "adam-amsgrad": "adamw amsgrad",
    "sgd": "sgd",
    "sgd-momentum": "sgd momentum",
    "adagrad": "adagrad, rmsprop",
    "rmsprop": "adagrad, rmsprop",
    "rowwise-adagrad": "rowwise adagrad (torchrec 1.9.2; 2-D parameters)",
    "lion": "lion",
    "muon": "muon (2-D parameters; the rest needs adam)",
    "adafactor": "adafactor, no first moment",
    "adafactor-momentum": "adafactor, beta1",
    "adam-8bit": "8-bit adamw, block 256",
    "lion-8bit": "8-bit lion, block 256",
    "ademamix": "ademamix (bitsandbytes 0.50)",
    "ademamix-8bit": "8-bit ademamix (bitsandbytes 0.50)",
    "adam-4bit": "4-bit adamw (torchao)",
    "adam-fp8": "fp8 adamw (torchao)",
    "schedule-free-adamw": "schedule-free adamw (schedulefree 1.4.1)",
    "schedule-free-sgd": "schedule-free sgd (schedulefree 1.4.1)",
    "soap": "soap (soap.py of its authors)",
    "shampoo": "shampoo (distributed_shampoo, blocks of 1024, Adam grafting)",
}
"""Which row of `published/optimizer_state_bytes.json` is of which optimizer."""

MEASURED_SHAPE = Architecture(
    family="llama",
    hidden_size=512,
    num_layers=4,
    num_attention_heads=8,
    ffn_hidden_size=1408,
    vocab_size=32_000,
    tied_embeddings=False,
)


def optimizer_states() -> Iterator[Comparison]:
    """Compare the bytes per parameter of every optimizer that was measured."""
    rows = {row["optimizer"]: row["bytes_per_parameter"] for row in published("optimizer_state_bytes")["rows"]}
    for optimizer, name in MEASURED_OPTIMIZERS.items():
        measured = rows[name]
        within = max(_WITHIN_FRACTION, _WITHIN_BYTES / measured) if measured else 0.0
        predicted = moment_bytes_per_parameter(optimizer)
        yield _SAVED.compare(f"B per parameter: {optimizer}", predicted, measured, within=within)


def moment_bytes_per_parameter(optimizer: Optimizer) -> float:
    """Return the optimizer's bytes per parameter of the measured model; with muon, of the parameters that it trains.

    Bare tensors were measured, of which no optimizer knows that one is an embedding.
    """
    groups = inventory_of(MEASURED_SHAPE)
    if optimizer == "muon":
        groups = tuple(group for group in groups if group.is_hidden_matrix)
    parts = [part for part in saved_parts(Training(optimizer=optimizer, precision="fp32")) if part.name == "moments"]
    num_bytes = sum(
        group.num_tensors * part.tensor_bytes(group.shape, role="hidden-matrix" if group.is_hidden_matrix else "other")
        for group in groups
        for part in parts
    )
    return num_bytes / num_parameters(groups)
