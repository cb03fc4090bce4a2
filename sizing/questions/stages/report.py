"""Report on stages on unlike nodes, as a document: a balanced pipeline, who writes what, and virtual workers."""

from __future__ import annotations

from pydantic import Field, JsonValue

from sizing.strict_model import StrictModel


class StageOnKind(StrictModel):
    """A pipeline stage, the kind of its nodes and its layers."""

    stage: int = Field(description="Number of the pipeline stage, from 0.")
    kind: str = Field(description="Kind of the nodes that it stands on.")
    first_layer: int = Field(description="Number in the model of its first layer, from 0.")
    num_layers: int = Field(description="Layers that the stage runs, multi-token-prediction modules aside.")
    seconds: float = Field(
        description="Seconds that a microbatch takes on it, forward and backward, with what it waits for. Two "
        "sends are in it, one forward and one back; of these, first and last stage make one in step_seconds."
    )
    busy_fraction: float = Field(description="Fraction of the time of the slowest stage that this one is at work.")
    gpu_bytes: int = Field(description="Bytes that its fullest GPU needs.")
    room_bytes: int = Field(description="Bytes of a GPU of its kind that may be used, the headroom left free.")


class Pipeline(StrictModel):
    """Layers dealt to stages on kinds of nodes, and how fast that is."""

    stages: list[StageOnKind] = Field(description="What runs where, from the first layers of the model to the last.")
    slowest_stage_seconds: float = Field(description="Seconds that a microbatch takes on the slowest stage.")
    step_seconds: float = Field(
        description="Seconds from one step of the optimizer to the next. They are the passes of all microbatches, "
        "simulated in the order of the schedule, the longest exchange of replicas and the longest update of the "
        "optimizer."
    )
    tokens_per_second: float = Field(description="Tokens that all GPUs together train on per second.")
    fits: bool = Field(description="Whether each stage fits the GPUs of its kind, the headroom left free.")


class KindOfNodes(StrictModel):
    """Nodes of one kind: what they hold and what they write."""

    name: str = Field(description="What the scenario calls these nodes, or the catalog does.")
    num_nodes: int = Field(description="Nodes of this kind that the cluster holds.")
    num_gpus: int = Field(description="GPUs that all nodes of the kind together hold.")
    num_stages: int = Field(description="Pipeline stages that stand on these nodes.")
    num_layers: int = Field(description="Layers of these stages together.")
    max_gpu_bytes: int = Field(description="Bytes that the fullest GPU of the kind needs.")
    written_bytes: int = Field(description="Bytes that its ranks write per save.")
    num_writing_nodes: int = Field(description="Nodes of the kind that hold at least one writer.")
    max_node_bytes: int = Field(description="Bytes that the node of the kind that writes most writes per save.")
    node_write_bytes_per_second: float | None = Field(
        description="Write rate of one node of the kind in bytes per second: its storage_nics or the storage's rate "
        "of a node, the lower. Null where neither is known."
    )
    write_seconds: float | None = Field(
        description="Seconds in which its busiest node writes its bytes alone. Null where its rate is not known."
    )


class VirtualWorker(StrictModel):
    """HetPipe's virtual workers of one composition: each a pipeline over its own devices."""

    count: int = Field(description="Virtual workers with the same stages on the same kinds of nodes.")
    kinds: list[str] = Field(description="Kind of nodes of each of its stages, in their order.")
    layers_per_stage: list[int] = Field(description="Layers that each of its stages runs, the first stage first.")
    minibatch_seconds: float = Field(description="Seconds from one minibatch to the next: those of its slowest stage.")
    wave_seconds: float = Field(
        description="Seconds from one wave to the next if it waited for no other worker: as many minibatches as "
        "stages, and what it waits for updates and weights."
    )
    waiting_fraction: float = Field(description="Fraction of the time for which it waits for the slowest worker.")
    max_gpu_bytes: int = Field(
        description="Bytes that its fullest GPU needs, with the weights that each minibatch in the pipeline began with."
    )


class VirtualWorkers(StrictModel):
    """What one of HetPipe's policies makes of the nodes."""

    policy: str = Field(description="How nodes are grouped: node-partition, equal-distribution, hybrid-distribution.")
    reason: str | None = Field(description="Why it makes no virtual workers here. Null when it does.")
    workers: list[VirtualWorker] = Field(description="Virtual workers by composition. Empty where there are none.")
    tokens_per_second: float | None = Field(
        description="Tokens that all workers together train on per second. Null where there are none."
    )
    max_stale_minibatches: int | None = Field(
        description="Minibatches of other workers whose updates the weights of a minibatch may lack, at most. "
        "Null where there are no workers."
    )
    drained_bytes: int | None = Field(
        description="Bytes of a checkpoint that waits until all workers have ended the same wave: one version of the "
        "weights, and the optimizer. Null where there are no workers."
    )
    drain_seconds: float | None = Field(
        description="Seconds that the slowest worker then takes to run empty and to fill again. "
        "Null where there are no workers."
    )
    undrained_bytes: int | None = Field(
        description="Bytes of a consistent checkpoint that does not wait: beside those the weights that each minibatch "
        "in a pipeline began with, of each worker. Null where there are no workers."
    )


class StagesReport(StrictModel):
    """A pipeline balanced over kinds of nodes, and who writes what then."""

    model: str = Field(description="What is trained: a preset, a config, or what the model was described by.")
    num_gpus: int = Field(description="World size: tensor x pipeline x context x data.")
    balanced: Pipeline = Field(description="Layers and order of kinds that make the slowest stage the fastest.")
    as_given: Pipeline = Field(
        description="Layers as the scenario splits them, equally unless it says, in the order of cluster.nodes."
    )
    gain_fraction: float = Field(
        description="Tokens per second that balancing adds, as a fraction of those of as_given."
    )
    change: dict[str, JsonValue] = Field(
        description="Values of the scenario's fields that apply the balanced split, by dotted path. "
        "Empty where it has it already."
    )
    kinds: list[KindOfNodes] = Field(description="What nodes of each kind hold and write with the balanced split.")
    written_bytes: int = Field(
        description="Bytes of one checkpoint as it is written: measured, or after the format's own compression."
    )
    write_seconds: float | None = Field(
        description="Seconds of writing one checkpoint with the balanced split, bounded by the busiest node of each "
        "kind and by the file system. Null where no rate is known."
    )
    write_limit: str | None = Field(
        description="What bounds the writing: the kind of nodes, or file-system. Null where no rate is known."
    )
    virtual_workers: list[VirtualWorkers] = Field(
        description="What HetPipe's policies make of the nodes instead: as many virtual workers as parallelism.data."
    )
    warnings: list[str] = Field(description="What a reader must know before believing the figures.")
