from __future__ import annotations

import os
import subprocess
import sys

import pytest

from io_bench.ranks.placement import Placement, node_in, placement_in
from sizing.errors import InvalidInput


def test_without_a_launcher_a_process_is_alone() -> None:
    placement = placement_in({})
    assert (placement.rank, placement.num_ranks, placement.local_rank) == (0, 1, 0)
    assert placement.pid == os.getpid()


def test_torchrun_variables_say_rank_and_node() -> None:
    placement = placement_in({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "GROUP_RANK": "2"})
    assert (placement.rank, placement.num_ranks, placement.local_rank) == (5, 8, 1)


def test_nodes_with_one_host_name_are_told_apart() -> None:
    assert node_in({"GROUP_RANK": "0", "HOSTNAME": "worker"}) != node_in({"GROUP_RANK": "1", "HOSTNAME": "worker"})
    assert node_in({"SLURMD_NODENAME": "n1"}) != node_in({"SLURMD_NODENAME": "n2"})


def test_ranks_of_one_host_share_a_node_without_any_variable() -> None:
    assert node_in({}) == node_in({})


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "one", "WORLD_SIZE": "2"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "1"},
        {"RANK": "0", "WORLD_SIZE": ""},
    ],
)
def test_variables_that_no_launcher_sets_are_refused(environment: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        placement_in(environment)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"LOCAL_RANK": "3"}, "LOCAL_RANK is set without RANK and WORLD_SIZE, got '3': start the ranks with torchrun"),
        ({"WORLD_SIZE": "8", "LOCAL_RANK": "3"}, "WORLD_SIZE is set without RANK, got '8'"),
        ({"RANK": "0", "LOCAL_RANK": "0"}, "RANK is set without WORLD_SIZE, got '0'"),
    ],
)
def test_a_rank_that_was_told_only_a_part_does_not_run_alone(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        placement_in(environment)
    assert str(refused.value).startswith(sentence)
    assert str(refused.value).endswith("or unset it to run alone.")


def test_ranks_of_mpirun_do_not_run_each_for_itself() -> None:
    with pytest.raises(InvalidInput, match="OMPI_COMM_WORLD_SIZE must be 1: mpirun is not supported"):
        placement_in({"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "3"})
    assert placement_in({"OMPI_COMM_WORLD_SIZE": "1"}).num_ranks == 1
    under_srun_with_pmi = {"PMI_SIZE": "8", "RANK": "3", "WORLD_SIZE": "8"}
    assert placement_in(under_srun_with_pmi).rank == 3


def test_a_process_that_has_ended_is_dead_also_as_a_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    placement = Placement(1, 2, 1, "n", "h", child.pid, "p")
    assert not placement.is_dead()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert placement.is_dead()
    child.communicate()
    assert placement.is_dead()
