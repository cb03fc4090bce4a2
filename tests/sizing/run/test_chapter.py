"""The docstring of `sizing.run` is the table of contents of its modules."""

import pkgutil
import re

import sizing.run


def test_the_chapter_names_every_module_once() -> None:
    named = re.findall(r"`(\w+)`", sizing.run.__doc__ or "")
    assert sorted(named) == sorted(module.name for module in pkgutil.iter_modules(sizing.run.__path__))
