"""Commands that start a training: the launcher's words, the program, and the settings that the program is given."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sizing.config_files.source import (
    DIFFERS,
    ConfigSource,
    Setting,
    SourceBuilder,
    Unresolved,
    find_hole,
    is_hole,
    plain_value,
)

Text = str | Unresolved

LAUNCHER = "launcher."
"""Begin of the names of a launcher's own settings."""

_LAUNCHERS = {
    "torchrun",
    "ray",
    "msrun",
    "deepspeed",
    "accelerate",
    "srun",
    "mpirun",
    "mpiexec",
    "horovodrun",
    "sbatch",
    "singularity",
    "apptainer",
    "docker",
    "nohup",
    "env",
    "time",
    "timeout",
    "sudo",
    "exec",
    "numactl",
    "nsys",
    "uv",
    "poetry",
    "bash",
    "sh",
}
_PROGRAMS = {"llamafactory-cli", "axolotl", "trl", "swift", "megatron", "xtuner", "composer"}
"""Programs that train and are no Python files."""
_FIRST_WORDS = {"tune", "nemo"}
"""Programs that are so where they are a command's first word alone, as their names are words of others too."""

_PYTHON = re.compile(r"(.*/)?python[\d.]*")
_LAUNCHER_MODULES = {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed"}
_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.\-]*)(=(?P<value>.*))?", re.DOTALL)
_OVERRIDE = re.compile(r"[+~]{0,2}(?P<name>[A-Za-z_][\w.\-/@]*)=(?P<value>.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\w+|[@*]|\{[^}]+\})")
_DIRECTIVES = re.compile(r"^#SBATCH[ \t]+(?P<options>[^#\n]*)", re.MULTILINE)
_SLURM_OPTION = re.compile(
    r"(?<!\S)(--(?P<name>[A-Za-z][\w-]*)(=|[ \t]+(?!-))|-(?P<short>[A-Za-z])=?[ \t]*(?!-))(?P<value>[^\s#]+)"
)
_SLURM_SHORT = {"N": "nodes", "n": "ntasks", "t": "time", "G": "gpus"}


def directives(text: str) -> Iterator[tuple[str, Any, int]]:
    """List the `#SBATCH` directives of a script: name, value, line."""
    for line in _DIRECTIVES.finditer(text):
        for option in _SLURM_OPTION.finditer(line["options"]):
            name = option["name"] or _SLURM_SHORT.get(option["short"], option["short"])
            place = text.count("\n", 0, line.start()) + 1
            yield f"{LAUNCHER}slurm_{name.replace('-', '_')}", plain_value(option["value"]), place


def command_source(file: str, words: Sequence[Text], line: int, slurm: Mapping[str, Setting]) -> ConfigSource | None:
    """Read the settings of a command that trains; None for one that does not (`echo`, `mkdir`).

    Flags become names as argparse makes them: `num_layers` of `--num-layers`. Hydra's overrides keep theirs.
    """
    program = _find_program(words)
    if program is None:
        return None
    builder = SourceBuilder(file, dict(slurm))
    _add_launcher(builder, words[:program], line)
    positional = _add_settings(builder, words[program:], line)
    return ConfigSource(file, builder.settings, words=tuple(positional))


_STARTS_RANKS = {"llamafactory-cli": "CUDA_VISIBLE_DEVICES", "swift": None}
"""Programs that start torchrun by themselves, and the variable that says the GPUs where NPROC_PER_NODE does not.

Source: LLaMA-Factory, src/llamafactory/launcher.py; ms-swift, swift/cli/main.py.
"""


def ranks_of_environment(program: Text, environment: Mapping[str, Any]) -> list[Text]:
    """Return the words of torchrun that a program starts by itself, from the environment that it is given.

    >>> ranks_of_environment("swift", {"NPROC_PER_NODE": "8", "NNODES": "2"})
    ['torchrun', '--nproc_per_node', '8', '--nnodes', '2']
    """
    if not isinstance(program, str) or _name(program) not in _STARTS_RANKS:
        return []
    per_node, devices = environment.get("NPROC_PER_NODE"), environment.get(_STARTS_RANKS[_name(program)] or "")
    if per_node is None and isinstance(devices, str) and re.fullmatch(r"\d+(,\d+)*", devices):
        per_node = str(devices.count(",") + 1)
    if not isinstance(per_node, str | Unresolved):
        return []
    nodes = environment.get("NNODES")
    return [
        "torchrun",
        "--nproc_per_node",
        per_node,
        *(["--nnodes", nodes] if isinstance(nodes, str | Unresolved) else []),
    ]


def _find_program(words: Sequence[Text]) -> int | None:
    """Return the place of the program that trains among the words of a command, behind launchers and Python."""
    first = words[0]
    if isinstance(first, str) and not find_hole(first):
        is_started = _name(first) in _LAUNCHERS | _PROGRAMS or _PYTHON.fullmatch(first) or first.endswith(".py")
        if _name(first) in _FIRST_WORDS:
            return 0
        if not is_started:
            return None
    for place, word in enumerate(words):
        if not isinstance(word, str):
            continue
        after_module_flag = place > 0 and words[place - 1] in ("-m", "--module")
        if after_module_flag and word not in _LAUNCHER_MODULES:
            return place
        if word.endswith(".py") or (_name(word) in _PROGRAMS):
            return place
    # `torchrun -m ...` has its module before; a launcher whose program is a variable is followed by its flags.
    return next((place for place, word in enumerate(words) if place and isinstance(word, Unresolved)), None)


def _name(word: str) -> str:
    return word.rpartition("/")[2]


_MPI = {"n": "ntasks", "np": "ntasks", "N": "ntasks-per-node", "npernode": "ntasks-per-node"}
_SHORT_FLAGS = {"srun": _SLURM_SHORT, "mpirun": _MPI, "mpiexec": _MPI, "horovodrun": _MPI}
"""Flags of one dash that say how many ranks or nodes, by launcher.

Source: manual pages srun(1) of Slurm and mpirun(1) of Open MPI; `horovodrun --help`.
"""


def _add_launcher(builder: SourceBuilder, words: Sequence[Text], line: int) -> None:
    """Add the flags of launchers; short ones get the names that Slurm has for what they say."""
    inner, short_flags, renamed = SourceBuilder(builder.file), dict[str, str](), list[Text]()
    for word in words:
        if isinstance(word, str) and _name(word) in _LAUNCHERS:
            short_flags = _SHORT_FLAGS.get(_name(word), {})
        found = re.fullmatch(r"--?([A-Za-z]+)=?(.*)", word, re.DOTALL) if isinstance(word, str) else None
        if found is not None and found[1] in short_flags:
            renamed += [f"--{short_flags[found[1]]}", *filter(None, [found[2]])]
        else:
            renamed.append(word)
    _add_settings(inner, renamed, line, is_launcher=True)
    for setting in inner.settings.values():
        builder.add(f"{LAUNCHER}{setting.name}", setting.value, setting.place)


_LAUNCHER_SWITCHES = {"standalone", "no_python", "m", "module", "multi_gpu", "use_deepspeed", "use_fsdp", "unbuffered"}


def _add_settings(builder: SourceBuilder, words: Sequence[Text], line: int, *, is_launcher: bool = False) -> list[str]:
    """Add flags and overrides among words to a builder, and return the words that are neither."""
    positional: list[str] = []
    place = 0
    while place < len(words):
        word, place = words[place], place + 1
        if is_hole(word) and (why := find_hole(word)) != DIFFERS:
            why = why or Unresolved("")
            name = f"words of {next(iter(_VARIABLE.findall(why.why)), 'a variable')}"
            builder.add(name, why, f"{builder.file}, line {line}: {name}")
        if not isinstance(word, str):
            continue
        flag = _FLAG.fullmatch(word)
        if flag is not None:
            values: list[Any] = []
            name = flag["name"].replace("-", "_")
            if flag["value"] is not None:
                values.append(plain_value(flag["value"]))
            elif not (is_launcher and name in _LAUNCHER_SWITCHES):
                while place < len(words) and _is_value(words[place]) and not (values and is_hole(words[place])):
                    values.append(plain_value(words[place]))
                    place += 1
                    if is_launcher or is_hole(words[place - 1]):
                        break
            value = True if not values else values[0] if len(values) == 1 else values
            builder.add(name, value, f"{builder.file}, line {line}: --{flag['name']}")
            continue
        override = _OVERRIDE.fullmatch(word)
        if override is not None and not is_hole(word):
            value = plain_value(override["value"])
            builder.add(override["name"], value, f"{builder.file}, line {line}: {override['name']}")
        else:
            positional.append(word)
    return positional


def _is_value(word: Text) -> bool:
    """Whether a word after a flag is its value, and not the next flag or an override; negative numbers are values."""
    if not isinstance(word, str):
        return True
    return not (_FLAG.fullmatch(word) or _OVERRIDE.fullmatch(word))


def num_gpus_of(settings: Mapping[str, Setting]) -> tuple[int, tuple[str, ...]] | None:
    """Return the GPUs that a launcher starts ranks on, and the names of the settings that say so; None if they do not.

    Of torchrun, `accelerate`, `deepspeed`, MPI and Slurm; what a command is given goes before Slurm's directives. The
    nodes that a file of hosts names are not known.
    """
    total = _first(settings, ("num_processes", "worker_num"))
    if total is not None:
        return total[0], (total[1],)
    included = _included(settings)
    if included is not None:
        return included
    of_process = _first(settings, ("nproc_per_node", "num_gpus"))
    per_node = of_process or _first(settings, ("gpus_per_node", "gres", "slurm_gpus_per_node", "slurm_gres"))
    processes = _first(settings, ("ntasks",))
    if per_node is None and processes is not None and processes[0] > 1:
        return processes[0], (processes[1],)
    tasks = _first(settings, ("ntasks_per_node", "slurm_ntasks_per_node"))
    per_node = per_node or (tasks if tasks and tasks[0] > 1 else None)
    started = () if of_process is None else ("ntasks",)  # each task of srun or mpirun is then a torchrun
    of_nodes = ("nnodes", "num_nodes", "num_machines", *started, "nodes", "slurm_nodes", "hostfile", "machinefile")
    nodes = _first(settings, of_nodes)
    if per_node is None or (nodes is None and any(f"{LAUNCHER}{each}" in settings for each in of_nodes)):
        return None
    if nodes is None:
        return per_node[0], (per_node[1],)
    return per_node[0] * nodes[0], (per_node[1], nodes[1])


def _included(settings: Mapping[str, Setting]) -> tuple[int, tuple[str, ...]] | None:
    """Count the GPUs that `deepspeed --include host:0,1@other:0,1` names; None where it does not name all."""
    name = f"{LAUNCHER}include"
    value = settings[name].value if name in settings else None
    hosts = value.split("@") if isinstance(value, str) else []
    if not hosts or not all(re.fullmatch(r"[^:]+:\d+(,\d+)*", host) for host in hosts):
        return None
    return sum(host.rpartition(":")[2].count(",") + 1 for host in hosts), (name,)


def _first(settings: Mapping[str, Setting], names: Sequence[str]) -> tuple[int, str] | None:
    """Return the first of several settings of a launcher that is a number, with its name."""
    for each in names:
        name = f"{LAUNCHER}{each}"
        value = settings[name].value if name in settings else None
        if isinstance(value, str) and value[:1].isalpha():  # Slurm's gpu:h100:8 and gpu:8, not torchrun's 1:4
            value = plain_value(value.rpartition(":")[2])
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value, name
    return None
