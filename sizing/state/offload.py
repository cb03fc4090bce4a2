"""The `training.offload` block of a Scenario: the parts of training state and activations that are off the GPU."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from sizing.errors import broken_rule
from sizing.spelling import AnySpelling
from sizing.strict_model import InputModel
from sizing.units import BytesPerSecond, Fraction, OrText, PositiveSeconds

Place = Literal["none", "host", "nvme"]
"""Where a part of the state is stored between its uses: on the GPU, in host memory, or on the drives of the node."""

OFFLOAD_RATES = ("layer_seconds", "link_bytes_per_second", "nvme_bytes_per_second", "optimizer_parameters_per_second")
"""Fields that give the speed of copies and updates. They move nothing by themselves."""

_Share = OrText[Annotated[Fraction, Field(gt=0, le=1, allow_inf_nan=False)]]

_AnyPlace = Annotated[AnySpelling[Place], BeforeValidator(lambda name: "host" if str(name).lower() == "cpu" else name)]
"""Host memory is cpu in the configs of DeepSpeed and FSDP."""


class Offload(InputModel):
    """What lies in host memory or on NVMe drives of the node in place of GPU memory. By default nothing does."""

    optimizer: _AnyPlace = Field(
        "none",
        description="Where the optimizer state (master copy and moments) lies: none leaves it on the GPU. With "
        "DeepSpeed its gradients go there too. Default: none.",
    )
    optimizer_fraction: _Share = Field(
        1.0,
        description="Fraction of the optimizer state that is offloaded: Megatron-LM's --optimizer-offload-fraction, "
        "DeepSpeed's offload_optimizer.ratio. Default: 1, all of it.",
    )
    weights: _AnyPlace = Field(
        "none",
        description="Where the weights lie while they are not computed with: none leaves them on the GPU. Default: "
        "none.",
    )
    activations_fraction: _Share | None = Field(
        None,
        description="Fraction of the activations that wait in host memory for the backward pass. Default: none do.",
    )
    layer_seconds: PositiveSeconds | None = Field(
        None,
        description="Seconds that the forward pass of one layer takes for one microbatch, as measured: copies that "
        "take no longer are hidden behind it. Default: unknown, so what can be hidden is not computed.",
    )
    link_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Rate of one GPU's link to its host in a step, one way, in bytes per second. Default: "
        "storage.profile.device_to_host_bytes_per_second, else 0.47 of the line rate of the node's PCIe generation.",
    )
    nvme_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Rate at which all drives of a node read or write, in bytes per second. Default: unknown, so with "
        "state on nvme step times are not computed.",
    )
    optimizer_parameters_per_second: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = Field(
        None,
        description="Parameters per second that the CPUs of one node update. Default: 3.9e9, as published of "
        "DeepSpeed's CPU-Adam with all cores of a DGX-2.",
    )

    @model_validator(mode="after")
    def _a_fraction_is_of_something(self) -> Self:
        if self.optimizer_fraction < 1 and self.optimizer == "none":
            raise broken_rule("has optimizer_fraction without optimizer", "give optimizer host, or remove it")
        return self

    @property
    def moves(self) -> bool:
        """Whether anything leaves the GPU: rates alone move nothing."""
        return (self.optimizer, self.weights, self.activations_fraction) != ("none", "none", None)
