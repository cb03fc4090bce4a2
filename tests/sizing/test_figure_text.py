"""Figures as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.units import figure_text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("cluster.rates_bytes_per_second", [1e9, 2e9], "1.000 GB/s, 2.000 GB/s"), ("targets", (), "none")],
)
def test_a_list_is_read_entry_by_entry(name: str, value: Any, text: str) -> None:
    assert figure_text(name, value) == text
