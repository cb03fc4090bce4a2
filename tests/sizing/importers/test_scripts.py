"""Launch scripts: what is known of a command whose words come from strings, arrays and branches."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.config_files.launchers import num_gpus_of
from sizing.config_files.script import script_sources
from sizing.config_files.source import ConfigText, Unresolved
from sizing.errors import InvalidInput
from tests.sizing.importers.imports import fields_of, import_texts


def _settings(text: str) -> dict[str, Any]:
    """Return the settings of the last command of a script by name, unknown ones as the reason."""
    sources = script_sources(ConfigText(name="train.sh", content=text))
    settings = {name: each.value for name, each in sources[-1].settings.items()}
    return {name: value.why if isinstance(value, Unresolved) else value for name, value in settings.items()}


SCRIPTS = {
    "a string with an unset variable among known flags": (
        'ARGS=" --num-layers 8 \\\n --load ${LOAD} --bf16"\nCMD="torchrun train.py ${ARGS}  ${MORE} --lr 1"\neval $CMD',
        {
            "num_layers": 8,
            "load": "is $LOAD, not set in the script",
            "bf16": "is $MORE, not set in the script",
            "lr": 1,
        },
    ),
    "items of an array that hold a flag and its value": (
        'ARGS=(--bf16)\nARGS+=("--fp8-format hybrid" "--margin 0")\ntorchrun train.py ${ARGS[@]}',
        {"bf16": True, "fp8_format": "hybrid", "margin": 0},
    ),
    "flags of one branch": (
        'A="--x 1"\nif [ $1 = yes ]; then\n A="$A --sequence-parallel"\nfi\ntorchrun train.py $A',
        {"x": 1, "sequence_parallel": "differs between branches of the script"},
    ),
    "an assignment behind a test that fails": (
        'USE=0\n[[ $USE = 1 ]] && A="--sequence-parallel"\ntorchrun train.py --x 1 $A',
        {"x": 1, "words of $A": "is $A, not set in the script"},
    ),
    "an assignment in place of a test that holds": (
        "USE=1\nA=--x\n[ $USE -eq 1 ] || A=--y\ntorchrun train.py $A",
        {"x": True},
    ),
    "two assignments beside a test, which the first one changes": (
        "USE=1\n[ $USE = 1 ] && USE=2 || USE=3\ntorchrun train.py --x $USE",
        {"x": 2},
    ),
    "two assignments beside a test that fails": (
        '[ 1 = 2 ] && A="--x 1" || A="--y 2"\ntorchrun train.py $A',
        {"y": 2},
    ),
    "an assignment behind a test that the script does not say": (
        "TP=2\n[ $1 = big ] && TP=8\ngrep -q H100 gpus && PP=4\ntorchrun train.py --tp $TP --pp $PP",
        {"tp": "differs between branches of the script", "pp": "differs between branches of the script"},
    ),
    "an assignment behind a command that is no test": (
        "cd /run && export TP=4 && PP=2\nif [ $TP = 4 ] && true; then DP=8; fi\n"
        "torchrun train.py --tp $TP --pp $PP --dp $DP",
        {"tp": 4, "pp": 2, "dp": 8},
    ),
    "commands behind tests": (
        "[ 1 = 2 ] && torchrun other.py --x 1\npip install x && torchrun train.py --x 2",
        {"x": 2},
    ),
    "variables that arithmetic changes": (
        "TP=2\n((TP*=2))\nPP=1\n((PP++))\nlet DP=4 'DP += PP'\n((CP = TP / 2, EP=8))\nif ((CP > 1)); then V=$((TP--)); fi\n"
        "torchrun train.py --tp $TP --pp $PP --dp $DP --cp $CP --ep $EP --v $V",
        {"tp": 3, "pp": 2, "dp": 6, "cp": 2, "ep": 8, "v": 4},
    ),
    "variables that arithmetic changes by what the script does not say": (
        "TP=2\n((TP*=$1))\ntorchrun train.py --tp $TP",
        {"tp": "is set by ((TP*=$1)), which the script does not say"},
    ),
    "variables that commands set": (
        "TP=2\nread -r TP < file\nPP=2\nprintf -v PP %d 4\ntorchrun train.py --tp $TP --pp $PP",
        {"tp": "is set by read", "pp": "is set by printf"},
    ),
    "a variable that is unset": ("A=--x\nunset A\ntorchrun train.py --tp 4 $A", {"tp": 4}),
    "variables of a subshell and of a pipeline": (
        "TP=2\nPP=2\n(TP=4)\nPP=4 | cat\n(TP=8; torchrun other.py --tp $TP)\ntorchrun train.py --tp $TP --pp $PP",
        {"tp": 2, "pp": 2},
    ),
    "a variable that counts the passes of a loop": (
        "for ((I=0; I<3; I++)); do torchrun train.py --x $I; done",
        {"x": "changes in a loop"},
    ),
    "a file that the script sources": (
        "source venv/bin/activate\n. /run/$1/env.sh\ntorchrun train.py --tp ${TP:-1}",
        {"source env.sh": "may set variables: they are taken as the script alone says them", "tp": 1},
    ),
    "a script that a here-document writes": (
        "TP=4\ncat > job.sh <<EOF\n#!/bin/bash\ntorchrun train.py --tensor $TP\nEOF\nsbatch job.sh",
        {"tensor": 4},
    ),
    "arrays that another script starts": (
        "ALL=(\n  --num-layers 8\n)\nALL+=(--tensor 2)",
        {"num_layers": 8, "tensor": 2},
    ),
    "words behind a value": (
        "torchrun train.py --lr 1 $MORE --x 2",
        {"lr": 1, "words of $MORE": "is $MORE, not set in the script", "x": 2},
    ),
}


@pytest.mark.parametrize(("text", "expected"), SCRIPTS.values(), ids=SCRIPTS)
def test_what_a_script_says_is_read_around_what_it_does_not_say(text: str, expected: dict[str, Any]) -> None:
    assert _settings(text) == expected


def test_a_json_that_a_script_writes_is_read_around_what_it_does_not_say() -> None:
    text = 'cat <<EOT > ds.json\n{"zero_optimization": {"stage": $1}, "fp16": {"enabled": true}}\nEOT\n'
    assert _settings(text) == {"zero_optimization.stage": "is $1, an argument of the script", "fp16.enabled": True}


def test_nodes_that_a_script_does_not_say_make_its_gpus_unknown() -> None:
    text = "torchrun --nproc_per_node 8 --nnodes {} train.py"
    gpus = [
        num_gpus_of(script_sources(ConfigText(name="a.sh", content=text.format(nodes)))[0].settings)
        for nodes in ("4", "$NODES", "1:4")
    ]
    assert [each and each[0] for each in gpus] == [32, None, None]


LAUNCHED = {
    "a short directive without a space": (
        "#SBATCH -N16\n#SBATCH --gpus-per-node=8\ntorchrun --nproc_per_node 8 a.py",
        128,
    ),
    "several directives in a line": (
        "#SBATCH --exclusive --ntasks-per-node=8 -N 16 -p gpu # --nodes=2\nsrun python a.py",
        128,
    ),
    "nodes of srun": ("srun -N 16 torchrun --nproc_per_node 8 a.py", 128),
    "nodes of srun over those of the job": ("#SBATCH --nodes=2\nsrun -N16 --ntasks-per-node=8 python a.py", 128),
    "tasks of srun over those of the job": (
        "#SBATCH --nodes=8\n#SBATCH --ntasks-per-node=4\nsrun --ntasks-per-node=8 python a.py",
        64,
    ),
    "tasks of srun": ("srun -n 64 python a.py", 64),
    "each process of mpirun a torchrun": ("mpirun -np 16 --map-by ppr:1:node torchrun --nproc_per_node 8 a.py", 128),
    "each process of mpirun a rank": ("mpirun -np 16 -N 8 python a.py", 16),
    "nodes of torchrun under srun": ("srun -n 4 torchrun --nnodes 4 --nproc_per_node 8 a.py", 32),
    "nodes in a file": ("deepspeed --hostfile=hosts --num_gpus 8 a.py", None),
    "nodes in a file, and their number": ("deepspeed --hostfile=hosts --num_nodes 4 --num_gpus 8 a.py", 32),
    "processes that the script does not say": ("mpirun -np $N torchrun --nproc_per_node 8 a.py", None),
}


@pytest.mark.parametrize(("text", "expected"), LAUNCHED.values(), ids=LAUNCHED)
def test_gpus_are_those_of_all_nodes_that_a_launcher_names(text: str, expected: int | None) -> None:
    gpus = num_gpus_of(script_sources(ConfigText(name="a.sh", content=text))[0].settings)
    assert (gpus and gpus[0]) == expected


TRAINING = (
    "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
    "--seq-length 4096 --micro-batch-size 1 --vocab-size 128256 --swiglu --save-interval 1000 --bf16"
)


def test_two_trainings_of_a_script_that_differ_are_refused_and_not_blended() -> None:
    with pytest.raises(
        InvalidInput, match=r"several trainings .* parallelism.tensor is 4 in .*, line 1 and 1 in .*, line 2"
    ):
        import_texts(f"{TRAINING} --tensor-model-parallel-size 4\n{TRAINING}")
    with pytest.raises(InvalidInput, match=r"retention.keep_last is not given in .* line 1 and 2 in .* line 3"):
        import_texts(f"{TRAINING}\n{TRAINING}\n{TRAINING} --most-recent-k 2")


def test_trainings_of_a_script_that_agree_are_one() -> None:
    without_launcher = f"python {TRAINING.partition('--nnodes 4 ')[2]}"
    report = import_texts(f"{without_launcher} --lr 2 --unheard-of 3\n{TRAINING} --lr 1")
    assert fields_of(report, ["cluster.num_gpus", "parallelism.data"]) == {
        "cluster.num_gpus": 32,
        "parallelism.data": 32,
    }
    assert [each.setting for each in report.not_understood] == ["--unheard-of"]
    assert len(report.files) == 1
