"""What a save and a restore ask of the storage: all that the steps after the layout need of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sizing.cluster import NodeSpec, ResolvedNode
from sizing.cluster.node import PCIE_BYTES_PER_SECOND
from sizing.layout import CheckpointSize, LaidOut, Parallelism
from sizing.layout.size import METADATA
from sizing.provenance import Assumption
from sizing.run.demands.chain import Chain
from sizing.run.demands.copies import num_state_copies
from sizing.run.demands.readings import RestorePlan, RestoreStrategy, restore_plans
from sizing.run.demands.resharding import amplification
from sizing.run.demands.save_defaults import AS_SHIPPED, SaveDefaults
from sizing.run.demands.universal import Universal
from sizing.state.saved_state import PartName
from sizing.storage.limits import Demand, Direction


@dataclass(frozen=True, slots=True)
class Demands:
    """What one layout asks of any storage. A sweep over storage, failures and targets derives it once.

    `max_node_bytes` is what the fullest node writes of a checkpoint. Where saves hold less than everything, these are
    means over saves: `whole` is what a save of everything asks, `longest` the largest save and restore, and `chain`
    which saves must stay. `exported_bytes` are those of `checkpoint.export`, which may
    be a `universal` checkpoint. `num_state_copies` of the whole training state lie in GPUs of different nodes, at most
    `node_state_bytes` of it on one.
    """

    write: Demand
    restores: dict[RestoreStrategy, RestorePlan]
    written_bytes: int
    weights_bytes: int
    num_gpus: int
    num_nodes: int
    num_writing_nodes: int
    max_node_bytes: int
    node: NodeSpec
    defaults: SaveDefaults = AS_SHIPPED
    whole: Demands | None = None
    longest: Demands | None = None
    chain: Chain | None = None
    exported_bytes: int = 0
    universal: Universal | None = None
    num_experts: int | None = None
    num_state_copies: int = 1
    node_state_bytes: float = 0.0
    assumptions: tuple[Assumption, ...] = ()

    @property
    def unreduced(self) -> Demands:
        """Those of a save of everything."""
        return self.whole or self

    @property
    def unreduced_bytes(self) -> int:
        """Bytes of a checkpoint with everything in it."""
        return self.unreduced.written_bytes

    @property
    def gpu_link_bytes_per_second(self) -> float | None:
        """Line rate from one GPU to its host, if published."""
        return PCIE_BYTES_PER_SECOND.get(self.node.pcie_generation or 0)

    @property
    def copy_bytes_per_second(self) -> float | None:
        """Rate at which one GPU is taken to copy to its host, where the link's line rate is published."""
        line_rate = self.gpu_link_bytes_per_second
        return None if line_rate is None else line_rate * self.defaults.copied_fraction

    @property
    def network_bytes_per_second(self) -> float | None:
        """Line rate of a node's ports to the other nodes, if published."""
        return self.node.compute_network_bytes_per_second

    def steps(self, strategy: RestoreStrategy) -> dict[Direction, Sequence[Demand]]:
        """What a save asks, and a restore with that strategy, one step after the other."""
        return {"write": [self.write], "read": self.restores[strategy].demands}

    def through(self, node_network_bytes_per_second: float | None) -> Demands:
        """The same where the adapters of a node carry so much; None where nothing that is known holds them."""
        return replace(
            self,
            write=replace(self.write, node_network_bytes_per_second=node_network_bytes_per_second),
            restores={name: plan.through(node_network_bytes_per_second) for name, plan in self.restores.items()},
            whole=self.whole and self.whole.through(node_network_bytes_per_second),
            longest=self.longest and self.longest.through(node_network_bytes_per_second),
        )

    @property
    def own_restore(self) -> RestorePlan:
        """How the ranks that saved read back what lies in their own nodes, once, and pass it on."""
        all_wrote = self.write.num_streams == self.num_gpus
        return self.restores["parallel-read-exchange" if all_wrote else "read-once-broadcast"]


def demands_of(
    laid_out: LaidOut,
    parallelism: Parallelism,
    *,
    node: ResolvedNode,
    restored: tuple[LaidOut, Parallelism],
    defaults: SaveDefaults = AS_SHIPPED,
) -> Demands:
    """What saving the layout on those nodes, and restoring it into the same or another one, asks of the storage."""
    layout = laid_out.on_nodes
    more = amplification(laid_out.saved_as, parallelism, restored[1])
    restores = restore_plans(*restored, amplification=more)
    demands = Demands(
        write=_write_demand(laid_out, defaults),
        restores=restores,
        written_bytes=laid_out.size.written_bytes,
        weights_bytes=_weights_bytes(laid_out.size),
        num_gpus=layout.num_gpus,
        num_nodes=layout.num_nodes,
        num_writing_nodes=layout.num_writing_nodes,
        max_node_bytes=layout.max_writers_per_node * layout.max_rank_bytes,
        node=node.spec,
        defaults=defaults,
        num_state_copies=num_state_copies(laid_out.sharding, parallelism, gpus_per_node=node.spec.gpus_per_node),
        node_state_bytes=restores["every-replica"].max_rank_read_bytes * node.spec.gpus_per_node,
    )
    nics = node.storage_nics
    return demands.through(nics.node_bytes_per_second) if nics else demands


def _weights_bytes(size: CheckpointSize) -> int:
    """What the weights of a checkpoint take alone; the master copy where it holds no others."""
    kept: tuple[PartName, ...] = ("weights", "master")
    part_bytes = next((size.parts[name].total_bytes for name in kept if name in size.parts), 0)
    return part_bytes * size.written_bytes // size.total_bytes


def _write_demand(laid_out: LaidOut, defaults: SaveDefaults) -> Demand:
    """Every writer writes its files at once; where there is a `.metadata`, all ranks plan for it."""
    size, layout = laid_out.size, laid_out.on_nodes
    metadata_bytes, planning = size.small_state_bytes.get(METADATA, 0), laid_out.saved_as.planning
    return Demand(
        size.written_bytes,
        layout.num_writers,
        layout.num_writers / layout.max_writers_per_node,
        size.num_files,
        num_planned_ranks=layout.num_gpus if metadata_bytes else 0,
        metadata_bytes=metadata_bytes,
        planning_seconds_per_rank=planning.seconds_per_rank if planning and defaults.plans else 0.0,
        stalling_planning_fraction=0.0 if planning and planning.is_in_background else 1.0,
        largest_over_mean=layout.largest_over_mean,
    )
