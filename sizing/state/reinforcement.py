"""The `training.reinforcement` block of a Scenario: the models of RL post-training, and what goes to inference."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator

from sizing.errors import broken_rule
from sizing.ranges import plausible_choice, plausible_range
from sizing.spelling import AnySpelling
from sizing.state.optimizers import Dtype
from sizing.state.scaled_dtypes import ScaledDtype
from sizing.strict_model import InputModel
from sizing.units import BytesPerSecond, Fraction, OrText, PositiveSeconds, Seconds, parse_count

Content = Literal["full", "delta", "adapters"]
Way = Literal["network", "storage"]
Transfer = Literal["broadcast", "peer-to-peer"]

_Parameters = OrText[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**16)]]

_DELTA = plausible_choice("training.reinforcement.publication.delta_fraction")
NETWORK_FRACTION = plausible_range("training.reinforcement.publication.network_fraction")
LOAD = plausible_range("training.reinforcement.publication.load_seconds_per_tensor")


class Publication(InputModel):
    """How the policy's weights come to the inference engines that make the samples."""

    interval_seconds: PositiveSeconds = Field(
        description="Seconds from one publication to the next: an RL step, where each is published."
    )
    content: AnySpelling[Content] = Field(
        "full",
        description="What is sent. With full all weights, into which adapters are merged; with delta the values that "
        "have changed; with adapters (training.adapters) these alone, to engines that hold the frozen weights.",
    )
    delta_fraction: OrText[Annotated[Fraction, Field(gt=0, le=1, allow_inf_nan=False)]] = Field(
        _DELTA.midpoint,
        json_schema_extra={"source": _DELTA.reason},
        description="Fraction of the weights' bytes that a delta has, positions included. "
        f"Default: {_DELTA.midpoint:g}, midpoint of published ones; it counts with content delta alone.",
    )
    dtype: Dtype | ScaledDtype = Field(
        "bf16",
        description="Dtype in which inference takes the weights. fp8-block and the MX formats count scales; adapters "
        "alone are then in bf16.",
    )
    over: AnySpelling[Way] = Field(
        "network",
        description="The way to inference. Over the network each engine receives from trainers; over storage "
        "trainers write once, and each engine reads.",
    )
    transfer: AnySpelling[Transfer] = Field(
        "broadcast",
        description="What a node of an engine receives over the network. With broadcast all weights, of which each GPU "
        "takes its part, with peer-to-peer its part alone.",
    )
    through_host: bool = Field(
        False,
        description="Whether trainers copy weights to host memory first and send them from there, as a checkpoint "
        "engine does that outlives them. Default: weights go from GPU to GPU.",
    )
    network_fraction: OrText[Annotated[Fraction, Field(gt=0, le=1, allow_inf_nan=False)]] | None = Field(
        None,
        json_schema_extra={"source": NETWORK_FRACTION.reason},
        description="Fraction of the line rate of a node's compute network at which it receives weights. "
        f"Default: {NETWORK_FRACTION.midpoint:.2g}, geometric mean of published ones.",
    )
    load_seconds_per_tensor: Seconds | None = Field(
        None,
        json_schema_extra={"source": LOAD.reason},
        description="Seconds in which an engine takes one tensor of the model into its own layout; formats with scales "
        f"have a second tensor for the scales of each matrix. Default: {LOAD.midpoint * 1e6:.0f} us, "
        "geometric mean of published ones.",
    )
    num_replicas: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1, description="Inference engines that receive the weights."
    )
    nodes_per_replica: Annotated[int, Field(ge=1, le=10_000)] = Field(
        1, description="Nodes of one inference engine, which receive its weights together."
    )
    replica_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Measured rate at which one inference engine receives weights, in bytes per second, with all that "
        "trainers do before and engines after. Default: time by time, from the compute network, or the storage's read "
        "rates, and the loading of tensors.",
    )

    @property
    def sent_dtype(self) -> Dtype | ScaledDtype:
        """Dtype of what is sent: beside weights with scales engines take adapters in 16 bits (vLLM, lora_dtype)."""
        has_scales = self.dtype in get_args(ScaledDtype)
        return "bf16" if self.content == "adapters" and has_scales else self.dtype


class Reinforcement(InputModel):
    """Models beside the policy, which `model` describes.

    A checkpoint holds policy and critic, each with its optimizer. Reference and reward model are frozen, and come from
    where they were taken at the start.
    """

    critic_parameters: _Parameters | None = Field(
        None,
        description="Parameters of the critic (value model), which is trained and saved with an optimizer of its own. "
        "Default: there is none, as in GRPO.",
    )
    saved_frozen_parameters: _Parameters | None = Field(
        None,
        description="Parameters of frozen models (reference, reward, what adapters of a critic stand beside) whose "
        "weights are saved in each checkpoint. "
        "Default: none are, as they do not change.",
    )
    publication: Publication | None = Field(
        None, description="How weights go to inference. Default: what that takes is not computed."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise broken_rule(
                "must have critic_parameters, saved_frozen_parameters or publication",
                "give one of them, or remove reinforcement",
            )
        return self
