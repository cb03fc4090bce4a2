"""Classes that describe a training framework, and its mean time to detect a failure.

A framework is one object in one module of this folder. Its fields state its facts. A rule that needs more than a fact
(how FSDP cuts a tensor, what a kernel keeps) has a name here and is computed in one other place. `registry.py` lists
the objects; no other module asks for a framework by its name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sizing.provenance import Assumption
from sizing.state.offload import Offload, Place
from sizing.state.optimizers import OPTIMIZERS, Dtype
from sizing.state.saved_state import PartName
from sizing.state.training import FrameworkName, Loss, Precision, Schedule, Training
from sizing.units import percent_text

OptimizerSharding = Literal["dp-reshardable", "fully-reshardable"]
"""Form in which torch-dist saves a divided optimizer. `dp-reshardable`: each rank saves its share of the flat buffer; a
run can load it with another number of replicas, but with no other change of the layout. `fully-reshardable`: the
optimizer is gathered and saved tensor by tensor, like the weights; any layout can load it."""

KeyValueHeads = Literal["repeated", "once", "cut"]
"""Heads of keys and values where there are more tensor ranks than heads. `repeated`: each rank has a copy of a head.
`once`: more ranks than heads are refused. `cut`: ranks share the rows of a head, and gather them to compute."""

StateSpaceGroups = Literal["repeated", "divided"]
"""Groups of Mamba-2's heads where there are more tensor ranks than groups. `repeated`: each rank has a copy of a group.
`divided`: ranks that do not divide the groups are refused."""

ShardingRule = Literal["optimizer", "zero", "fsdp", "shard-group", "mesh-axes"]
"""How replicas divide the training state. `optimizer`: the optimizer, where it is distributed. `zero`: by the stage of
ZeRO. `fsdp`: all state, by FSDP's meshes. `shard-group`: as `fsdp` where `parallelism.shard_group` is given, else
replicas each hold all state, as with DDP. `mesh-axes`: all state, over MaxText's axes fsdp, context and expert.
`sizing/layout/sharding.py` computes each."""

KernelsName = Literal["transformer-engine", "eager", "compiled"]
"""Implementations of the operations between matrix products; `sizing/training/kernels.py` lists the tensors that each
keeps.
"""

GradientExchange = Literal["fused", "buckets", "layers", "copies"]
"""How gradients of the backward pass are reduced, and so how much is held meanwhile: accumulated in place, in buckets
of a fixed size, layer by layer, or in buckets that are a copy of all gradients, where FSDP does not reduce them layer
by layer. `sizing/training/in_flight.py` counts it.
"""

GatheredUnits = Literal["nothing", "layers", "stages", "modules"]
"""Units of sharded weights that a rank gathers to compute. FSDP gathers units, which are layers here, and keeps those
of a pipeline stage. ZeRO 3 gathers the modules with parameters of their own."""

HostGradients = Literal["none", "as computed", "fp32"]
"""Gradients that an offloaded optimizer keeps beside it."""

HostAccumulation = Literal["on the GPU", "on the host"]
"""Where gradients of a microbatch are added to those of earlier ones in host memory.

`on the host`: by the CPUs, and the backward pass waits for the copy. `on the GPU`: the sum comes back and leaves again;
behind the last microbatch it leaves once more, as the optimizer takes it. Where weights are whole and there is one
microbatch, it leaves only then.
"""

FP32: Mapping[PartName, Dtype] = {"weights": "fp32", "moments": "fp32"}
FP32_TWICE: Mapping[PartName, Dtype] = {"weights": "fp32", "master": "fp32", "moments": "fp32"}
"""Dtypes where the optimizer copies weights that are fp32 already."""
BF16: Mapping[PartName, Dtype] = {"weights": "bf16", "moments": "bf16"}
BF16_BESIDE_FP32: Mapping[PartName, Dtype] = {"weights": "bf16", "master": "fp32", "moments": "fp32"}
FP16_BESIDE_FP32: Mapping[PartName, Dtype] = {"weights": "fp16", "master": "fp32", "moments": "fp32"}


@dataclass(frozen=True, slots=True)
class KeptState:
    """Bytes that a framework keeps of a trained parameter in some precision.

    `dtypes`: dtype of each part of the state. `gradient_bytes`: bytes of the gradient. `optimizer_gradient_bytes`:
    bytes of the optimizer's own copy of the gradient, which is sharded like the optimizer. Gradients are never saved.
    """

    dtypes: Mapping[PartName, Dtype]
    gradient_bytes: int
    optimizer_gradient_bytes: int = 0


@dataclass(frozen=True, slots=True)
class OffloadRule:
    """State that a framework can keep off the GPU.

    `optimizer`, `weights`: the places that it knows beside the GPU. `takes_fraction`: part of the optimizer can stay on
    the GPU. `is_joint`: optimizer, gradients and weights move together. `gradients_leave`: reduced gradients do not
    stay on the GPU. `host_gradients`: the gradients that an offloaded optimizer keeps beside it.
    `adds_gradients`: where those that leave are added up over microbatches.
    `needs_distributed_optimizer`: the flag that requires it, where only a distributed optimizer can go to the host.
    `updates_on_gpu`: the state returns to the GPU for the update. `overlaps_update`: the CPUs update one part while the
    link carries others. `moves_activations`: activations that are not recomputed can move too, so that the layout
    search may propose it. `flag`: the framework's own flag for the state.
    """

    optimizer: tuple[Place, ...]
    weights: tuple[Place, ...]
    flag: str
    source: str
    takes_fraction: bool = False
    is_joint: bool = False
    gradients_leave: bool = False
    host_gradients: HostGradients = "none"
    adds_gradients: HostAccumulation = "on the host"
    needs_distributed_optimizer: str | None = None
    updates_on_gpu: bool = False
    overlaps_update: bool = False
    moves_activations: bool = False

    def choices(self, *, has_drives: bool) -> Iterator[Offload]:
        """List what of the state may leave: the optimizer to the host, with the weights or not; the same to drives."""
        if "host" in self.optimizer and not self.is_joint:
            yield Offload(optimizer="host")
        if "host" in self.weights:
            yield Offload(optimizer="host", weights="host")
        if "nvme" in self.optimizer and has_drives:
            yield Offload(optimizer="nvme")
        if "nvme" in self.weights and has_drives:
            yield Offload(optimizer="nvme", weights="nvme")


@dataclass(frozen=True, slots=True)
class CollectiveTimeout:
    """Time after which a framework ends processes that wait for one another, as it ships.

    `line`: the setting in the form of the user's own config or code, with {seconds} or {minutes}. `is_of_nccl`: the
    watchdog of torch.distributed with NCCL ends them.
    """

    seconds: float
    line: str
    source: str
    is_of_nccl: bool = True

    def line_for(self, seconds: float) -> str:
        """Return the line that sets the timeout to these seconds, in whole minutes.

        >>> CollectiveTimeout(600, "--distributed-timeout-minutes {minutes}", "").line_for(1201)
        '--distributed-timeout-minutes 21'
        """
        minutes = math.ceil(seconds / 60)
        return self.line.format(seconds=60 * minutes, minutes=minutes)


@dataclass(frozen=True, slots=True)
class ShippedDefault:
    """Default that a framework ships for a field of a scenario, which an answer names with the framework's own setting.

    `setting`: the framework's own setting. `with_stages`: applies only if there is a pipeline and the scenario does not
    give the layers of a stage. `in_given_block`: applies only if the scenario has the block, which has no default of
    its own. `is_fixed`: no setting changes it, so that no other value is weighed. `with_microbatch`: applies only if
    the scenario gives micro_batch_size. `beside`: applies to every training, or only to one of the model itself, or of
    adapters beside a base in 4 or 8 bits, or in 4 bits of which scales can be quantised again.
    """

    field: str
    value: Any
    setting: str
    with_stages: bool = False
    in_given_block: bool = False
    is_fixed: bool = False
    with_microbatch: bool = False
    beside: Literal["anything", "no adapters", "a quantised base", "a base in 4 bits"] = "anything"


COLLECTIVE_TIMEOUT_SECONDS = 600.0
"""Timeout after which a collective that hangs ends the processes, where a framework ships none of its own.

Sources: torch.distributed with NCCL, which FSDP2 takes (pytorch/pytorch#110947), and Megatron-LM's
`distributed_timeout_minutes`, both in published/framework_defaults.json. The 100 s of JAX's heartbeat, which MaxText
takes, are no timeout of a collective: a process that hangs still sends it, and one that exits is noticed by its
launcher before.
"""

TORCH_TIMEOUT = CollectiveTimeout(
    COLLECTIVE_TIMEOUT_SECONDS,
    "init_process_group(timeout=timedelta(seconds={seconds}))",
    "torch 2.13, c10d/ProcessGroupNCCL.hpp, kProcessGroupNCCLDefaultTimeout; pytorch/pytorch#110947",
)
"""Timeout of torch.distributed with NCCL, where a framework sets none of its own."""


@dataclass(frozen=True, slots=True)
class DegreesTogether:
    """Degrees of parallelism that a framework does not take together, or takes on a condition.

    `least`: by field of `parallelism`, the value from which on the degree counts; the first field is the one to blame.
    `warning`: what must hold where all degrees count; empty where the framework refuses them.
    """

    least: Mapping[str, int]
    source: str
    warning: str = ""

    def count(self, parallelism: object) -> bool:
        """Return whether each of the degrees reaches its value. A degree that is not given does not."""
        return all((getattr(parallelism, field) or 0) >= value for field, value in self.least.items())


Deletion = Literal["before-save", "after-save", "never"]
"""When a framework deletes the checkpoints that it keeps no longer: before it writes the next one, which saves the room
of one and leaves fewer whole ones meanwhile, after it has written it, or never."""


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How a framework keeps checkpoints: `setting` limits their number, `deletes` says when the others go."""

    setting: str
    deletes: Deletion
    source: str


@dataclass(frozen=True, slots=True)
class SmallFile:
    """File without tensors that a trainer writes beside weights and optimizer: by rank 0, or by each rank.

    `name` has RANK for the number of the rank where each rank writes one; `alone` is it where there is one rank.
    `num_bytes`: 0 where it is counted otherwise. `is_beside_weights`: also where weights alone are saved. `scales`:
    only where gradients are scaled, in fp16. `without_moments`: only where the optimizer keeps nothing of tensors, as
    its file then has none. `format`: the only one in which it is written.
    """

    name: str
    num_bytes: int = 0
    alone: str = ""
    is_beside_weights: bool = False
    scales: bool = False
    without_moments: bool = False
    format: str = ""

    @property
    def is_of_each_rank(self) -> bool:
        """Whether each rank writes one."""
        return "RANK" in self.name


NO_DELETION = RetentionRule("none", "never", "the loop is the user's own")


@dataclass(frozen=True, kw_only=True, eq=False)
class Framework:
    """Facts of a training framework.

    `title`: its name as people write it. `version`: the version in which its facts were read or measured. `format`: the
    checkpoint format where none is given. `loading`: how it reads a checkpoint back, in words. `keeps`: the state that
    it keeps, by precision; it trains in no other. `compiles`: whether training.compile changes `kernels` and `loss`,
    which are the defaults of a step. `attention_of_torch`: attention is torch's scaled_dot_product_attention.
    `lists_operations`: selective recomputation goes by a list of saved operations. `counts_layers`: the number of
    recomputed layers can be set. `keeps_passed`: stages have a receive buffer for every microbatch, and keep what they
    sent. `accumulates_unreduced`: gradients that ranks shard are reduced in the last microbatch of a step alone; else
    in each. `hides_exchange_of`: units whose exchange with data-parallel ranks is hidden by computation, as it ships.
    `hides_sends_of`: schedules whose sends between stages are hidden behind the next microbatch, as it ships.
    `exchange_source`: where that was read, and the flags that hide other exchanges.
    `defaults`: what it ships for fields that a scenario leaves open. `not_taken`: what it ships that no answer takes,
    by the fields of which none is given. `retention`: how it deletes checkpoints. `distributed_optimizer`: whether
    replicas divide its optimizer by default. `optimizer_sharding`: the default form in which torch-dist saves a divided
    optimizer. `keeps_base_as_trained`: frozen weights under adapters have the dtype of trained ones in mixed precision
    too. `converts_to_universal`: a program of its own makes universal checkpoints of its own. `collective_timeout`: how
    long ranks may wait for one another. `degrees_together`: degrees that it refuses together, or takes on a condition.
    `uneven_stages_by`: the setting that gives the layers of unequal stages, if it refuses to spread layers unevenly.
    `described_by`: by a field that it does not take, how what it runs on is said.
    `small_files`: what it writes beside the files of its format, without the model's config and tokenizer.
    """

    name: FrameworkName
    title: str
    version: str
    source: str
    format: str
    loading: str
    key_value_heads: KeyValueHeads
    keeps: Mapping[Precision, KeptState]
    shards: ShardingRule
    gradient_exchange: GradientExchange
    offload: OffloadRule
    kernels: KernelsName
    loss: Loss
    compiles: bool
    attention_of_torch: bool
    lists_operations: bool
    counts_layers: bool
    keeps_passed: bool
    hides_exchange_of: frozenset[GatheredUnits]
    exchange_source: str
    retention: RetentionRule
    hides_sends_of: frozenset[Schedule] = frozenset()
    accumulates_unreduced: bool = False
    defaults: tuple[ShippedDefault, ...] = ()
    not_taken: Mapping[tuple[str, ...], Assumption] = field(default_factory=dict)
    distributed_optimizer: bool = False
    optimizer_sharding: OptimizerSharding = "dp-reshardable"
    keeps_base_as_trained: bool = False
    converts_to_universal: bool = False
    collective_timeout: CollectiveTimeout = TORCH_TIMEOUT
    degrees_together: tuple[DegreesTogether, ...] = ()
    state_space_groups: StateSpaceGroups = "repeated"
    uneven_stages_by: str = ""
    described_by: Mapping[str, str] = field(default_factory=dict)
    small_files: tuple[SmallFile, ...] = ()

    def small_files_of(self, training: Training, format_name: str, num_ranks: int) -> tuple[SmallFile, ...]:
        """Return the small files of a training on so many ranks, under the names that they have there."""
        is_whole = training.saved_state is None or not training.saved_state.weights_alone
        kept = (each for each in self.small_files if is_whole or each.is_beside_weights)
        kept = (each for each in kept if not each.scales or training.precision == "fp16-mixed")
        kept = (each for each in kept if not each.without_moments or not OPTIMIZERS[training.optimizer])
        kept = (each for each in kept if each.format in ("", format_name))
        return tuple(replace(each, name=each.alone) if each.alone and num_ranks == 1 else each for each in kept)


HUNG_FRACTION = 0.121
"""Fraction of failures in which no process exits, so that the others wait for it in a collective.

Source: 5,948 of 49,212 failures were implicit in ByteDance's fleet (ByteRobust, arXiv 2509.16293, at second hand:
published/failure_rates.json). In the same source, hangs are 9.9 of the 82.7 % of incidents that nobody started, 0.120.
"""


def mean_detection_seconds(timeout_seconds: float) -> float:
    """Compute the mean time from a failure until it is detected: D = h T.

    Args: h = HUNG_FRACTION of failures hang, and are noticed after T, the timeout of a collective. The others end a
    process, which its launcher notices at once.
    Source: definition of a mean; HUNG_FRACTION and the timeouts have sources of their own.

    >>> mean_detection_seconds(600)
    72.6
    """
    return round(HUNG_FRACTION * timeout_seconds, 1)


def shipped_detection(timeout_seconds: float, timeout: str) -> ShippedDefault:
    """Return the default detection time that follows from a framework's own timeout."""
    return ShippedDefault(
        "reliability.detection_seconds",
        mean_detection_seconds(timeout_seconds),
        f"{timeout}, after which the {percent_text(HUNG_FRACTION)} of failures that hang are noticed",
        in_given_block=True,
    )


INTERVAL_FIELDS = ("checkpoint.interval_seconds", "checkpoint.interval_steps")
"""Fields of which one gives the interval between checkpoints."""


def shipped_interval(setting: str, steps: int) -> Assumption:
    """Return what to say of an interval that a framework ships in steps, which an answer takes only when it is given.

    `setting`: the title of the framework and its own setting.

    >>> shipped_interval("MaxText checkpoint_period", 10_000).value
    '10,000 steps'
    """
    return Assumption(
        field=setting,
        value=f"{steps:,} steps",
        reason=f"not taken: give checkpoint.interval_steps {steps}, with training.step_seconds unless the step time is "
        "computed",
    )
