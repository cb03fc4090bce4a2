from __future__ import annotations

import pytest

from io_bench.ranks.placement import placement_in
from io_bench.ranks.slurm import first_host, torchrun_variables
from sizing.errors import InvalidInput

STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_LOCALID": "1",
    "SLURM_PROCID": "5",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "dgx[03-04]",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURMD_NODENAME": "dgx04",
}


def test_a_task_of_a_step_is_a_rank_on_its_node() -> None:
    placement = placement_in(STEP | torchrun_variables(STEP))
    assert (placement.rank, placement.num_ranks, placement.local_rank) == (5, 8, 1)
    assert placement.node == "SLURMD_NODENAME=dgx04"


def test_a_batch_script_runs_alone_although_slurm_numbers_it() -> None:
    script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_NODELIST": "dgx[03-04]", "SLURM_LOCALID": "0"}
    assert torchrun_variables(script) == {}


def test_a_shell_in_a_step_of_one_task_may_start_ranks_itself() -> None:
    assert torchrun_variables(STEP | {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}) == {}


def test_torchrun_inside_a_step_has_the_say() -> None:
    assert torchrun_variables(STEP | {"RANK": "0", "WORLD_SIZE": "16"}) == {}


def test_what_the_user_sets_stays() -> None:
    found = torchrun_variables(STEP | {"MASTER_ADDR": "10.0.0.1"})
    assert "MASTER_ADDR" not in found
    assert torchrun_variables(STEP)["MASTER_ADDR"] == "dgx03"


def test_steps_of_one_job_and_jobs_of_one_node_meet_on_ports_of_their_own() -> None:
    steps = [STEP | {"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)} for job in (7, 8) for step in range(4)]
    ports = {int(torchrun_variables(step)["MASTER_PORT"]) for step in steps}
    assert len(ports) == len(steps)
    assert min(ports) > 1023
    assert max(ports) < 32768  # where the kernel's own choice begins


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("n[1-2],m3", "n1"),
        ("n[08,10-12]", "n08"),
        ("r[1-2]n[3-4]-ib", "r1n3-ib"),
        ("", ""),
    ],
)
def test_the_first_node_of_a_list_is_where_ranks_meet(nodelist: str, host: str) -> None:
    assert first_host(nodelist) == host


def test_a_step_without_numbers_is_refused() -> None:
    with pytest.raises(InvalidInput, match="RANK"):
        placement_in(torchrun_variables({"SLURM_STEP_NUM_TASKS": "2"}))
