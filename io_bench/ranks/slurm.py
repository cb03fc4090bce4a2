"""Tasks of `srun` as ranks: the variables that torchrun would have set, from those that Slurm sets.

So all that reads torchrun's variables, torch itself included, works under plain `srun` too. Ranks that have not come
are named in words: by rank, and by node where that is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

# Below the range from which kernels give ports to outgoing connections.
_FIRST_PORT, _NUM_PORTS = 10_000, 20_000
_HOST = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")
_FIRST_NUMBER = re.compile(r"\[(\w+)[^\]]*\]")


def torchrun_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that torchrun would set for this task of a job step, as far as they are not set already.

    Nothing outside of a step (a batch script has SLURM_PROCID too, but runs alone), in a step of one task (an
    interactive shell, in which ranks may be started otherwise) and where a launcher inside the step, such as torchrun,
    has set RANK.

    >>> step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7",
    ...         "SLURM_STEP_ID": "1", "SLURM_STEP_NODELIST": "dgx[03-05,9]"}
    >>> torchrun_variables(step)["RANK"], torchrun_variables(step)["MASTER_ADDR"]
    ('2', 'dgx03')
    """
    if "RANK" in environment or environment.get("SLURM_STEP_NUM_TASKS", "1") == "1":
        return {}
    variables = {
        "RANK": environment.get("SLURM_PROCID", ""),
        "WORLD_SIZE": environment["SLURM_STEP_NUM_TASKS"],
        "LOCAL_RANK": environment.get("SLURM_LOCALID", ""),
        "MASTER_ADDR": first_host(environment.get("SLURM_STEP_NODELIST", "")),
        "MASTER_PORT": str(_choose_port(environment)),
    }
    return {name: value for name, value in variables.items() if name not in environment}


def first_host(nodelist: str) -> str:
    """Name the first host of a Slurm node list; "" where it names none.

    >>> first_host("rack1-n[07-12,20]-ib,login"), first_host("a,b[1-2]"), first_host("x[1-2]y[3-4]")
    ('rack1-n07-ib', 'a', 'x1y3')
    """
    host = _HOST.match(nodelist)
    return _FIRST_NUMBER.sub(r"\1", host.group()) if host else ""


def nodes_of_tasks(environment: Mapping[str, str]) -> list[str]:
    """List the node of each task of a job step, as Slurm assigns them by default: node after node. Empty outside.

    Source: srun(1), SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE and --distribution.

    >>> nodes_of_tasks({"SLURM_STEP_NODELIST": "n[08-09],login", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"})
    ['n08', 'n08', 'n09', 'n09', 'login']
    """
    hosts = hosts_of(environment.get("SLURM_STEP_NODELIST", ""))
    counts = [
        int(number)
        for number, times in _TASKS.findall(environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
        for _ in range(int(times or 1))
    ]
    if len(hosts) != len(counts) or environment.get("SLURM_DISTRIBUTION", "block")[:5] != "block":
        return []
    return [host for host, count in zip(hosts, counts, strict=True) for _ in range(count)]


def hosts_of(nodelist: str) -> list[str]:
    """List the hosts of a Slurm node list.

    >>> hosts_of("a[1-2]b[08,10],c")
    ['a1b08', 'a1b10', 'a2b08', 'a2b10', 'c']
    """
    return [host for part in _HOST.findall(nodelist) for host in _expand(part)]


def _expand(part: str) -> list[str]:
    """Multiply out the brackets of one part of a node list."""
    before, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, after = rest.partition("]")
    numbers = [number for span in inside.split(",") for number in _numbers(span)]
    return [f"{before}{number}{tail}" for number in numbers for tail in _expand(after)]


def _numbers(span: str) -> list[str]:
    """List the numbers of a span, as wide as they are written."""
    first, _, last = span.partition("-")
    return [f"{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]


def _choose_port(environment: Mapping[str, str]) -> int:
    """Choose a port on which the ranks can meet: the same for all of a step, another for another step."""
    job, step = (environment.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    numbers = [int(text) if text.isdecimal() else 0 for text in (job, step)]
    return _FIRST_PORT + (31 * numbers[0] + numbers[1]) % _NUM_PORTS


def list_ranks(ranks: Iterable[int], node_of: Callable[[int], str]) -> str:
    """List ranks in order, those of a node together; `node_of` says "" where the node is not known.

    >>> list_ranks([9, 1, 2, 3, 8], lambda rank: "n2" if rank > 7 else "n1")
    'ranks 1 to 3 on n1; ranks 8 and 9 on n2'
    >>> list_ranks([5], lambda rank: "")
    'rank 5'
    """
    by_node: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        by_node.setdefault(node_of(rank), []).append(rank)
    lists = []
    for node, on_node in by_node.items():
        texts = [f"{first}" if first == last else f"{first} to {last}" for first, last in _spans(on_node)]
        if len(on_node) == 2:
            texts = [str(rank) for rank in on_node]
        numbers = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
        lists.append(f"{'rank' if len(on_node) == 1 else 'ranks'} {numbers}{f' on {node}' if node else ''}")
    return "; ".join(lists)


def _spans(ranks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Group numbers into runs of successive ones.

    >>> list(_spans([1, 2, 3, 8]))
    [(1, 3), (8, 8)]
    """
    first = last = ranks[0]
    for rank in ranks[1:]:
        if rank != last + 1:
            yield first, last
            first = rank
        last = rank
    yield first, last


def node_by_launcher(rank: int, environment: Mapping[str, str]) -> str:
    """Name the node on which the launcher should have started a rank; "" where it does not say.

    >>> node_by_launcher(9, {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "2"})
    'node 1 of torchrun'
    """
    num_ranks, per_node, num_nodes = (
        environment.get(name, "") for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")
    )
    # Other nodes than this one may have another number of ranks: then nobody says which.
    if all(text.isdecimal() for text in (num_ranks, per_node, num_nodes)):
        is_uniform = int(per_node) * int(num_nodes) == int(num_ranks)
        return f"node {rank // int(per_node)} of torchrun" if is_uniform else ""
    of_tasks = nodes_of_tasks(environment)
    return of_tasks[rank] if rank < len(of_tasks) else ""
