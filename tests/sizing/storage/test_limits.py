"""The transfer model: the slowest shared resource decides, serial steps add up."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.storage.limits import Demand, Direction, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates
from sizing.storage.terms import shared_terms
from sizing.storage.transfer import files_seconds, shared_seconds, transfer_seconds

DEMAND = Demand(total_bytes=13_800_000_000_000, num_streams=512, num_nodes=64, num_files=512)

rates = st.floats(1e6, 1e13) | st.none()


@st.composite
def profiles(draw: st.DrawFn) -> StorageProfile:
    return StorageProfile.of(
        write=Rates(
            file_system_bytes_per_second=draw(st.floats(1e6, 1e13)),
            node_bytes_per_second=draw(rates),
            writer_bytes_per_second=draw(rates),
            device_to_host_bytes_per_second=draw(rates),
            files_per_second=draw(st.floats(1, 1e6) | st.none()),
            fixed_seconds=draw(st.floats(0, 100) | st.none()),
        )
    )


@pytest.mark.parametrize(
    ("profile", "seconds", "bottleneck"),
    [
        ({"write_bytes_per_second": 682.5e9}, 20.2198, "file-system"),
        ({"write_bytes_per_second": 682.5e9, "node_write_bytes_per_second": 8e9}, 26.953125, "node"),
        ({"write_bytes_per_second": 682.5e9, "writer_write_bytes_per_second": 1e9}, 26.953125, "writer"),
        (
            {"write_bytes_per_second": 682.5e9, "device_to_host_bytes_per_second": 1e9},
            20.2198 + 26.953125,
            "device-to-host",
        ),
        ({"write_bytes_per_second": 682.5e9, "files_per_second": 8}, 20.2198 + 64, "metadata"),
        ({"write_bytes_per_second": 682.5e9, "fixed_write_seconds": 3}, 23.2198, "file-system"),
    ],
)
def test_the_resource_that_takes_longest_is_named(profile: dict[str, float], seconds: float, bottleneck: str) -> None:
    result = transfer(StorageProfile.model_validate(profile), [DEMAND], direction="write")
    assert result is not None
    assert result.seconds == pytest.approx(seconds, rel=1e-5)
    assert result.bottleneck == bottleneck
    assert [limit.resource for limit in result.limits if limit.binds] == [bottleneck]


def test_a_profile_without_rates_for_a_direction_gives_no_time() -> None:
    assert (
        transfer(StorageProfile.of(read=Rates(file_system_bytes_per_second=1e9)), [DEMAND], direction="write") is None
    )


def test_reading_uses_the_read_rates_alone() -> None:
    profile = StorageProfile.of(
        write=Rates(file_system_bytes_per_second=1e9, device_to_host_bytes_per_second=1e6),
        read=Rates(file_system_bytes_per_second=1e12),
    )
    result = transfer(profile, [DEMAND], direction="read")
    assert result is not None
    assert result.seconds == pytest.approx(13.8)


def test_slack_is_what_a_resource_could_have_idled() -> None:
    profile = StorageProfile.of(write=Rates(file_system_bytes_per_second=1024e9, node_bytes_per_second=8e9))
    result = transfer(profile, [DEMAND], direction="write")
    assert result is not None
    assert {limit.resource: limit.slack_fraction for limit in result.limits} == {
        "node": 0.0,
        "file-system": 0.5,
    }


def test_draining_a_cache_that_holds_the_whole_save_takes_no_time_and_has_no_rate() -> None:
    profile = StorageProfile.of(
        write=Rates(file_system_bytes_per_second=1024e9, cache_bytes=20e12, beyond_cache_bytes_per_second=1e9)
    )
    result = transfer(profile, [DEMAND], direction="write")
    assert result is not None
    cache = next(limit for limit in result.limits if limit.resource == "write-back-cache")
    assert (cache.seconds, cache.bytes_per_second) == (0.0, None)
    assert cache.slack_fraction == 1.0


@given(profiles())
def test_no_estimate_beats_any_single_limit(profile: StorageProfile) -> None:
    result = transfer(profile, [DEMAND], direction="write")
    assert result is not None
    assert all(result.seconds >= limit.seconds for limit in result.limits)


@given(profiles())
def test_twice_the_bandwidth_halves_the_transfer_part_alone(profile: StorageProfile) -> None:
    shared = ("write_bytes_per_second", "node_write_bytes_per_second", "writer_write_bytes_per_second")
    doubled = {name: 2 * rate for name in shared if (rate := getattr(profile, name)) is not None}
    before = transfer(profile, [DEMAND], direction="write")
    after = transfer(profile.model_copy(update=doubled), [DEMAND], direction="write")
    assert before is not None
    assert after is not None
    assert after.serial_seconds == before.serial_seconds
    saved = (before.seconds - before.serial_seconds) / 2
    assert math.isclose(before.seconds - after.seconds, saved, rel_tol=1e-6, abs_tol=1e-9)


def test_the_equations_take_arrays_and_agree_with_the_scalar_answer() -> None:
    total_bytes = np.array([1e12, 13.8e12])
    by_node = shared_seconds(total_bytes, num_units=64, unit_bytes_per_second=np.array([[8e9], [4e9]]))
    by_system = shared_seconds(total_bytes, num_units=1, unit_bytes_per_second=682.5e9)
    seconds = transfer_seconds(files_seconds(512, files_per_second=1024), by_node, by_system)
    assert np.shape(seconds) == (2, 2)
    assert np.asarray(seconds)[0, 1] == pytest.approx(0.5 + 26.953125)


def test_steps_follow_each_other_each_at_its_own_limit() -> None:
    profile = StorageProfile.of(read=Rates(file_system_bytes_per_second=100.0, writer_bytes_per_second=1.0))
    everyone, one_rank = Demand(1_000, 1_000, 125, 1), Demand(50, 1, 1, 1)
    result = transfer(profile, [everyone, one_rank], direction="read")
    assert result is not None
    assert result.seconds == pytest.approx(10 + 50)
    assert result.bottleneck == "writer"


def test_profiles_of_arrays_give_what_their_rows_give() -> None:
    rows = [
        StorageProfile.of(
            write=Rates(file_system_bytes_per_second=fast, node_bytes_per_second=node, files_per_second=files)
        )
        for fast, node, files in ((1e12, 8e9, 1e6), (1e11, 8e9, 1.0), (1e11, 1e12, 1e3))
    ]
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in rows[0].model_fields_set}
    together = transfer(rows[0].model_copy(update=columns), [DEMAND], direction="write")
    apart = [transfer(row, [DEMAND], direction="write") for row in rows]
    assert together is not None
    assert np.asarray(together.seconds).tolist() == [row and row.seconds for row in apart]
    assert list(together.bottleneck) == [row and row.bottleneck for row in apart] == ["node", "metadata", "file-system"]


def seconds_of(profile: dict[str, float], demand: Demand = DEMAND, direction: Direction = "write") -> dict[str, float]:
    result = transfer(StorageProfile.model_validate(profile), [demand], direction=direction)
    assert result is not None
    return {"total": float(result.seconds)} | {str(limit.resource): limit.seconds for limit in result.limits}


def test_buffered_rates_stand_before_those_of_plain_streams() -> None:
    profile = {"writer_write_bytes_per_second": 2e9, "writer_buffered_write_bytes_per_second": 1e9}
    assert seconds_of(profile)["writer"] == pytest.approx(13.8e12 / 512e9)
    direct = StorageProfile.model_validate(profile).direct().model_dump(exclude_none=True)
    assert direct == {"writer_write_bytes_per_second": 2e9}


def test_each_serial_step_adds_its_own_time() -> None:
    profile = {
        "write_bytes_per_second": 1e12,
        "writer_write_bytes_per_second": 1e9,
        "files_per_second": 1024.0,
        "file_write_seconds": 0.5,
        "planning_seconds_per_rank": 0.001,
        "commit_seconds": 2.0,
        "fixed_write_seconds": 1.0,
    }
    demand = Demand(13_800_000_000_000, 512, 64, 1024, num_planned_ranks=3072, metadata_bytes=4_000_000_000)
    assert seconds_of(profile, demand) == pytest.approx(
        {
            "writer": 13.8e12 / 512e9,
            "file-system": 13.8,
            "planning": 3.072,
            "metadata": 1.0 + 4.0,
            "per-file": 2 * 0.5,
            "commit": 2.0,
            "fixed": 1.0,
            "total": 13.8e12 / 512e9 + 3.072 + 5.0 + 1.0 + 2.0 + 1.0,
        }
    )


def test_saves_and_restores_pay_for_files_and_plans_at_their_own_rates() -> None:
    writes = {"read_bytes_per_second": 1e12, "files_per_second": 512.0, "planning_seconds_per_rank": 0.001}
    demand = Demand(10**12, 512, 64, 512, num_planned_ranks=512)
    assert seconds_of(writes, demand, direction="read") == pytest.approx({"file-system": 1.0, "total": 1.0})
    reads = {"read_files_per_second": 2048.0, "read_planning_seconds_per_rank": 0.002}
    found = seconds_of(writes | reads, demand, direction="read")
    assert found["metadata"] == pytest.approx(0.25)
    assert found["planning"] == pytest.approx(1.024)


def test_what_happens_once_is_not_paid_for_each_step_of_a_restore() -> None:
    profile = StorageProfile.of(
        write=Rates(commit_seconds=7.0), read=Rates(file_system_bytes_per_second=1e9, fixed_seconds=3.0)
    )
    step = Demand(10**9, 1, 1, 1)
    result = transfer(profile, [step, step], direction="read")
    assert result is not None
    assert result.seconds == pytest.approx(2 + 3)


def test_terms_take_arrays_of_rates_and_of_demands() -> None:
    rates = Rates(file_system_bytes_per_second=np.array([[1e9], [2e9]]), node_bytes_per_second=1e9)
    demand = Demand(np.array([1e9, 8e9]), 8, np.array([1, 4]), 8)
    terms = shared_terms(rates, demand)
    assert np.asarray(terms["file-system"]).tolist() == [[1.0, 8.0], [0.5, 4.0]]
    assert np.asarray(terms["node"]).tolist() == [1.0, 2.0]
