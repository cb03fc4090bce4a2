"""`ckpt-size`: where it starts. Its verbs are imported later, without a search for garbage in what stays."""

from __future__ import annotations

import typer

from sizing.terminal.program import Program, run

FLAGS_ELSEWHERE = {
    elsewhere: flag
    for flag, names in {
        "--tensor": "--tp --tp-size --tensor-parallel --tensor-parallel-size --tensor-model-parallel-size",
        "--pipeline": "--pp --pp-size --pipeline-parallel --pipeline-parallel-size --pipeline-model-parallel-size",
        "--virtual-pipeline": "--vp --vpp --num-virtual-stages-per-pipeline-rank",
        "--first-stage-layers": "--decoder-first-pipeline-num-layers",
        "--last-stage-layers": "--decoder-last-pipeline-num-layers",
        "--embedding-counts-as-layer": "--account-for-embedding-in-pipeline-split",
        "--loss-counts-as-layer": "--account-for-loss-in-pipeline-split",
        "--data": "--dp --dp-size --data-parallel --data-parallel-size",
        "--context": "--cp --cp-size --context-parallel --context-parallel-size",
        "--expert": "--ep --ep-size --expert-parallel --expert-parallel-size --expert-model-parallel-size",
        "--micro-batch": "--mbs --micro-batch-size --train-micro-batch-size-per-gpu --per-device-train-batch-size",
        "--global-batch": "--gbs --global-batch-size --train-batch-size --batch-size --gradient-accumulation-steps",
        "--sequence-length": "--seq --seq-len --seq-length --seqlen --max-seq-len --context-length --cutoff-len "
        "--max-length --max-seq-length --sequence-len --model-max-length",
        "--tokens": "--train-tokens --num-tokens --max-steps --train-iters --train-samples --epochs --num-train-epochs",
        "--precision": "--fp16 --bf16 --dtype --mixed-precision --torch-dtype --model-dtype --params-dtype --pure-bf16",
        "--optimizer": "--optim --optimizer-name --optimizer-type",
        "--framework": "--deepspeed --trainer --training-framework --engine --strategy-name",
        "--shard-group": "--fsdp --fsdp-size --hsdp --sharding-strategy --fsdp-sharding-strategy --dp-shard "
        "--data-parallel-shard-degree",
        "--schedule": "--pipeline-schedule --pp-schedule --pipeline-parallel-schedule",
        "--recomputation": "--recompute --recompute-granularity --recompute-activations --activation-checkpointing "
        "--gradient-checkpointing --use-gradient-checkpointing",
        "--recomputed-layers": "--recompute-num-layers",
        "--expert-tensor": "--etp --expert-tensor-parallel-size",
        "--parameters": "--params --num-params --num-parameters --model-size",
        "--model": "--preset --model-name --arch --model-name-or-path --model-path --base-model --hf-model",
        "--zero-stage": "--zero --stage --deepspeed-stage --zero-optimization-stage",
        "--gpus": "--num-gpus --ngpus --gpu --world-size --nproc-per-node --gpus-per-node --num-processes",
        "--lora-rank": "--lora-r --lora --adapters-rank --adapters --peft-rank --peft --peft-type "
        "--adapter --use-peft --use-lora --finetuning-type",
        "--dora": "--use-dora --peft-use-dora",
        "--modules-to-save": "--lora-modules-to-save --additional-target --adapters-modules-to-save",
        "--bias": "--lora-bias --adapters-bias",
        "--base-dtype": "--base-precision --bnb-4bit-quant-type --quantization --quantization-bit --quant-bits",
        "--load-in-4bit": "--qlora --use-qlora --load-4bit",
        "--double-quant": "--bnb-4bit-use-double-quant --use-bnb-nested-quant --double-quantization",
        "--lora-targets": "--target-modules --lora-target --lora-target-modules --lora-modules --adapters-tensors",
        "--node": "--node-type --machine --instance --system",
        "--storage-nics": "--storage-nic --storage-adapters --storage-network --nics",
        "--format": "--ckpt-format --dist-ckpt-format",
        "--mode": "--async --async-save",
        "--interval": "--checkpoint-interval",
        "--interval-steps": "--save-steps --save-every --save-interval --checkpoint-steps --every-n-train-steps "
        "--save-freq --save-frequency",
        "--offload-optimizer": "--offload --cpu-offload --optimizer-offload --optimizer-cpu-offload",
        "--files-per-rank": "--thread-count",
        "--save-only-model": "--save-weights-only --weights-only --no-save-optim",
        "--write-bandwidth": "--bandwidth --bw --write-bw --storage-bandwidth --write",
        "--read-bandwidth": "--read-bw --read",
        "--storage": "--calibration --profile --storage-profile --storage-calibration",
        "--disk": "--disk-size --capacity --quota --storage-capacity --free-space",
        "--keep-last": "--keep --save-total-limit",
        "--failures": "--failure-rate --failure-preset --reliability",
        "--max-overhead": "--overhead --target-overhead",
        "--max-stall": "--stall --target-stall",
        "--recovery": "--rto --max-recovery --target-recovery --recovery-time",
        "--min-goodput": "--goodput --target-goodput --ettr --min-ettr",
        "--distributed-optimizer": "--use-distributed-optimizer",
        "--optimizer-sharding": "--dist-ckpt-optim-fully-reshardable --distrib-optim-sharding-type",
    }.items()
    for elsewhere in names.split()
}
"""What Megatron-LM, DeepSpeed, Transformers and other sizing tools call what these flags set."""

FLAGS_WITHOUT_EFFECT = frozenset(
    f"--{name}"
    for names in (
        "lora-alpha lora-dropout use-rslora neftune-noise-alpha dropout attention-dropout hidden-dropout",
        "lr learning-rate min-lr lr-scheduler-type lr-decay-style lr-decay-iters lr-warmup-iters lr-warmup-fraction",
        "lr-warmup-samples lr-warmup-steps warmup-steps warmup-ratio weight-decay adam-beta1 adam-beta2 adam-eps",
        "adam-epsilon max-grad-norm clip-grad seed init-method-std",
        "save-safetensors output-dir run-name report-to logging-steps logging-dir log-interval",
    )
    for name in names.split()
)
"""Flags of Transformers, PEFT's trainers and Megatron-LM that change no answer."""

PROGRAM = Program("ckpt-size", flags_elsewhere=FLAGS_ELSEWHERE, flags_without_effect=FLAGS_WITHOUT_EFFECT)


def main() -> None:
    """Run `ckpt-size`; the exit code is 0 for an answer, 1 for a missed target, 2 for bad input."""
    run(PROGRAM, _verbs)


def _verbs() -> typer.Typer:
    from sizing.cli.verbs import app  # noqa: PLC0415 - as said above

    return app
