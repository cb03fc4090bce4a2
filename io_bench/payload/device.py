"""Device of the payload: this rank's GPU, or host memory where there is none."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Device:
    """A torch device: "cpu" or "cuda:N"."""

    name: str

    @classmethod
    def of_local_rank(cls, local_rank: int) -> Device:
        """The GPU of a rank on its node; the CPU where torch sees no GPU."""
        if not torch.cuda.is_available():
            return cls("cpu")
        return cls(f"cuda:{local_rank % torch.cuda.device_count()}")

    @property
    def is_gpu(self) -> bool:
        """Whether the payload has to be copied to host memory to be written."""
        return self.name != "cpu"

    @property
    def title(self) -> str:
        """The GPU's product name, or "cpu"."""
        return torch.cuda.get_device_name(self.name) if self.is_gpu else self.name

    @property
    def identity(self) -> str:
        """A name that tells GPUs apart, by whatever number processes know them; empty for the CPU."""
        return str(torch.cuda.get_device_properties(self.name).uuid) if self.is_gpu else ""

    def free_bytes(self) -> int | None:
        """Free bytes of the GPU's memory; None for the CPU, whose memory ranks share."""
        return int(torch.cuda.mem_get_info(self.name)[0]) if self.is_gpu else None

    def synchronize(self) -> None:
        """Wait until the GPU has done what it was given, so that a clock read next counts it."""
        if self.is_gpu:
            torch.cuda.synchronize(self.name)
