#!/bin/sh
# A Slurm task prolog that checks each node for the checkpoints of a job before its ranks start. In the job's script:
#   export CKPT_TARGET=/lustre/run CKPT_CONFIG="train.toml"
#   srun --task-prolog=deploy/slurm/prolog-check.sh ...
# Slurm runs it as the user, once for each task; what follows "print" is shown in the task's output. Exit code 2 of the
# check (the checkpoints cannot be saved) ends the task. CKPT_GPUS is needed where no config file says the GPUs.
[ "${SLURM_LOCALID:-0}" = 0 ] || exit 0
[ -n "${CKPT_TARGET:-}" ] && [ -n "${CKPT_CONFIG:-}" ] || exit 0
# shellcheck disable=SC2086 # several files in one variable
said=$(ckpt-bench check --target "$CKPT_TARGET" --from $CKPT_CONFIG ${CKPT_GPUS:+--gpus "$CKPT_GPUS"} 2>&1)
code=$?
printf '%s\n' "$said" | sed 's/^/print /'
[ "$code" -ne 2 ] || exit 1
