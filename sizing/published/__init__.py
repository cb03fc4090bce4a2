"""Published facts as JSON, with their sources: read by `ckpt-size validate` and by the tests."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any


@functools.cache
def published(name: str) -> dict[str, Any]:
    """The facts in `NAME.json`, for example `published("vast_checkpoint_example")`.

    >>> published("vast_checkpoint_example")["one_trillion"]["num_writers"]
    512
    """
    text = resources.files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts
