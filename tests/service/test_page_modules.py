"""What a module of the page imports, the other exports: a browser says so only by a page that stays empty."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import service

MODULES = sorted((Path(service.__file__).parent / "pages" / "page").glob("*.js"))


def exported(module: Path) -> set[str]:
    return set(re.findall(r"^export (?:async )?(?:function|const|class|let) (\w+)", module.read_text(), re.MULTILINE))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_what_is_imported_is_exported(module: Path) -> None:
    for names, path in re.findall(r'^import \{([^}]+)\} from "\./([\w-]+\.js)"', module.read_text(), re.MULTILINE):
        wanted = {name.split(" as ")[0].strip() for name in names.split(",")} - {""}
        assert wanted <= exported(module.with_name(path)), (module.name, path)


def imported(module: Path) -> set[str]:
    """The modules that one needs, and those that they need, with its own name."""
    names, waiting = {module.name}, [module]
    while waiting:
        found = set(re.findall(r'from "\./([\w-]+\.js)"', waiting.pop().read_text())) - names
        names |= found
        waiting += [module.with_name(name) for name in found]
    return names


def test_the_page_asks_for_all_its_modules_at_once() -> None:
    page = MODULES[0].with_name("page.html")
    listed = re.findall(r'<link rel="modulepreload" href="page/([\w-]+\.js)">', page.read_text())
    assert sorted(listed) == sorted(imported(page.with_name("app.js")))


def test_there_are_modules_to_look_at() -> None:
    assert "app.js" in [module.name for module in MODULES]
