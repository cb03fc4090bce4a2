"""A run of known history, as the files that it leaves: sizes and times by each framework's own names."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from io_bench.checks.observed_saves import FileTimes

STARTED_AT = 1_700_000_000.25
RANK_BYTES = 4_000_000_000
SMALL_BYTES = 2_000


@dataclass(frozen=True)
class Layout:
    """Folder of a step, the files in which each rank's bytes stand, and small files beside them."""

    name: str
    folder: str
    of_rank: Callable[[int], Sequence[str]]
    small: Sequence[str] = ()


LAYOUTS = (
    Layout(
        "Megatron-LM classic",
        "iter_{:07}",
        lambda rank: [
            f"mp_rank_{rank % 2:02}_{rank // 2:03}/{name}.pt" for name in ("model_optim_rng", "distrib_optim")
        ],
    ),
    Layout(
        "Megatron-LM torch_dist",
        "iter_{:07}",
        lambda rank: [f"__{rank}_{file}.distcp" for file in range(2)],
        ("common.pt", "metadata.json", ".metadata"),
    ),
    Layout(
        "DeepSpeed",
        "global_step{}",
        lambda rank: [f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"],
        ("mp_rank_00_model_states.pt",),
    ),
    Layout(
        "Hugging Face Trainer",
        "checkpoint-{}",
        lambda rank: ["optimizer.pt", "model.safetensors"] if rank == 0 else [f"rng_state_{rank}.pth"],
        ("trainer_state.json", "scheduler.pt", "rng_state_0.pth"),
    ),
    Layout(
        "NeMo 2",
        "gpt--val_loss=2.31-step={}-consumed_samples=64000.0",
        lambda rank: [f"weights/__{rank}_0.distcp"],
        ("weights/.metadata", "context/io.json"),
    ),
)


@dataclass(frozen=True)
class History:
    """A run that saves every `cadence` steps and `interval` seconds, stands still as told, and removes old saves.

    `stops`: seconds that are lost before the save of a step. `late`: a rank takes so many times as long as the others.
    """

    layout: Layout
    num_ranks: int = 8
    num_saves: int = 12
    cadence: int = 500
    interval: float = 3600.0
    write_seconds: float = 80.0
    jitter: float = 0.02
    stops: Mapping[int, float] = field(default_factory=dict)
    late: Mapping[int, float] = field(default_factory=dict)

    def starts(self) -> dict[int, float]:
        """When the save of each step began."""
        draw, now, starts = random.Random(5), STARTED_AT, {}  # noqa: S311 - no secret
        for number in range(1, self.num_saves + 1):
            step = number * self.cadence
            now += self.interval * (1 + draw.uniform(-self.jitter, self.jitter)) + self.stops.get(step, 0.0)
            starts[step] = now
        return starts

    def files(self) -> list[FileTimes]:
        return [file for step, start in self.starts().items() for file in self.of_step(step, start)]

    def of_step(self, step: int, start: float) -> Iterator[FileTimes]:
        draw, folder = random.Random(step), self.layout.folder.format(step)  # noqa: S311 - no secret
        for rank in range(self.num_ranks):
            seconds = self.write_seconds * (1 - draw.uniform(0, self.jitter)) * self.late.get(rank, 1.0)
            names = self.layout.of_rank(rank)
            for place, name in enumerate(names):
                begin, end = (start + seconds * (place + part) / len(names) for part in (0, 1))
                size = RANK_BYTES // len(names) if not name.startswith("rng_state") else SMALL_BYTES
                yield FileTimes(f"{folder}/{name}", size, modified_at=end, created_at=begin)
        for name in self.layout.small:
            yield FileTimes(f"{folder}/{name}", SMALL_BYTES, modified_at=start + 1.0, created_at=start + 0.5)


def without_births(files: Sequence[FileTimes]) -> list[FileTimes]:
    return [replace(file, created_at=None) for file in files]


def removed(files: Sequence[FileTimes], steps: Sequence[int], layout: Layout) -> list[FileTimes]:
    """What is left once the saves of these steps are gone."""
    gone = tuple(f"{layout.folder.format(step)}/" for step in steps)
    return [file for file in files if not file.name.startswith(gone)]
