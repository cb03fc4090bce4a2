"""The engine that docs/extending.md adds: it is held to the contract of every engine, and it is the one of the page."""

from pathlib import Path
from typing import cast

import pytest

import io_bench
from io_bench.engines import ENGINES, Engine, EngineEntry, EngineOptions, EnginePlan
from io_bench.payload.payload import Payload
from io_bench.target.directory import RunDirectory
from sizing.layout.containers import CONTAINERS
from tests.io_bench import test_engines, toy_engine
from tests.io_bench.test_engines import EngineContract
from tests.io_bench.toy_engine import TorchSaveRenamed

PAGE = Path(io_bench.__file__).parents[1] / "docs" / "extending.md"
ROW = EngineEntry("torch_save_renamed", "TorchSaveRenamed", "torch-save under a passing name, renamed once durable")


class TestToyEngine(EngineContract):
    name = "torch-save-renamed"
    container = CONTAINERS["torch-zip"]

    @pytest.fixture
    def engine(self) -> Engine:
        return TorchSaveRenamed(EngineOptions())

    def test_the_passing_name_is_given_up(
        self, engine: Engine, plan: EnginePlan, payload: Payload, directory: RunDirectory
    ) -> None:
        engine.write(payload, directory, plan)
        assert not set(plan.passing_files) & set(directory.names())


def test_the_page_shows_this_engine() -> None:
    assert Path(toy_engine.__file__).read_text() in PAGE.read_text()
    assert f'"{ROW.module}", "{ROW.class_name}", "{ROW.summary}"' in PAGE.read_text()


def test_an_engine_that_is_registered_alone_is_named_by_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, EngineEntry], ENGINES), TorchSaveRenamed.name, ROW)
    for forgotten in (
        test_engines.test_every_engine_is_held_to_the_contract,
        test_engines.test_every_engine_is_in_the_guide,
    ):
        with pytest.raises(AssertionError, match=TorchSaveRenamed.name):
            forgotten()
