"""The terms of the transfer model: what each resource takes of a save or a restore.

Rates are numbers or numpy arrays, so one answer, a sweep over a million rows and the draws of a calibration run the
same lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizing.storage.rates import RESOURCES, TERMS, Rates, Resource, Unit
from sizing.storage.transfer import (
    Numbers,
    beyond_cache_bytes,
    contended_bytes,
    file_latency_seconds,
    files_seconds,
    planning_seconds,
    shared_seconds,
    transfer_seconds,
)

Terms = dict[Resource, Numbers]


@dataclass(frozen=True, slots=True)
class Demand:
    """What one save, or one step of a restore, asks of the storage: numbers, or arrays that broadcast.

    `num_streams` writers or readers move `total_bytes` in `num_files` opened files. They stand on as many nodes as
    they would if each held as many of them as the fullest does: `num_nodes` = streams / max on one node. The plans
    of `num_planned_ranks` are gathered before, in `planning_seconds_per_rank` where the storage does not say it, of
    which `stalling_planning_fraction` stops the training in asynchronous saves; `metadata_bytes` go through one stream
    after. Where the adapters of a node are known to carry `node_network_bytes_per_second` at most, that limits whatever
    the storage does. Before it is written, `copied_over_written` times as much is copied from the GPUs, and packing or
    unpacking it takes a mean stream `mean_compression_seconds`.

    All wait for the last stream, on the last node. The largest stream moves `largest_over_mean` times the mean, the
    fullest node `fullest_node_over_mean` times total / `num_nodes`: less than 1 where the node with the max of streams
    has small ones. What lies in host memory or on drives of the node already passes no GPU's link: `linked_over_copied`
    of all bytes pass it, and `largest_linked_over_copied` x the bytes of the largest stream on the stream with most
    such bytes.
    A stream's file is striped over `num_stripes` storage targets; where that is not known, as many as the rates say.
    `moved_before_bytes` is what earlier steps of the same transfer have moved, which has filled a cache so far.
    `process_bytes_per_second` is what is assumed of one process that makes files of tensors and writes them, where each
    stream is such a process; None where its own work does not limit.
    """

    total_bytes: Numbers
    num_streams: Numbers
    num_nodes: Numbers
    num_files: Numbers
    num_planned_ranks: Numbers = 0
    metadata_bytes: Numbers = 0
    planning_seconds_per_rank: Numbers = 0.0
    stalling_planning_fraction: Numbers = 1.0
    node_network_bytes_per_second: Numbers | None = None
    copied_over_written: Numbers = 1.0
    mean_compression_seconds: Numbers = 0.0
    largest_over_mean: Numbers = 1.0
    fullest_node_over_mean: Numbers = 1.0
    linked_over_copied: Numbers = 1.0
    largest_linked_over_copied: Numbers = 1.0
    num_stripes: Numbers | None = None
    process_bytes_per_second: Numbers | None = None
    moved_before_bytes: Numbers = 0

    @property
    def even(self) -> Demand:
        """The demand with all streams equal."""
        return replace(
            self,
            largest_over_mean=1.0,
            fullest_node_over_mean=1.0,
            largest_linked_over_copied=self.linked_over_copied,
        )

    @property
    def compression_seconds(self) -> Numbers:
        """Time of packing or unpacking on the stream with most bytes, for which all wait."""
        return self.mean_compression_seconds * self.largest_over_mean

    @property
    def copied_bytes(self) -> Numbers:
        """Bytes that an asynchronous save copies from the GPUs."""
        return self.total_bytes * self.copied_over_written

    @property
    def largest_copied_bytes(self) -> Numbers:
        """Bytes of the stream with most of them, for which all wait: training goes on when the last copy has ended."""
        return np.divide(self.copied_bytes, self.num_streams) * self.largest_over_mean

    @property
    def largest_linked_bytes(self) -> Numbers:
        """Bytes that pass the link of the GPU with most of them."""
        return self.largest_copied_bytes * self.largest_linked_over_copied

    @property
    def network_seconds(self) -> Numbers:
        """The time that the fullest node takes through its adapters; 0 where these do not limit."""
        rate = self.node_network_bytes_per_second
        if rate is None:
            return 0.0
        return shared_seconds(
            self.total_bytes,
            num_units=self.num_nodes,
            unit_bytes_per_second=rate,
            largest_over_mean=self.fullest_node_over_mean,
        )

    def units(self, unit: Unit) -> tuple[Numbers, Numbers]:
        """How many units of a kind move all bytes at once, and what the fullest moves over the mean.

        >>> Demand(8.0, 4, 2, 4, largest_over_mean=1.5).units("stream")
        (4, 1.5)
        """
        if unit == "node":
            return self.num_nodes, self.fullest_node_over_mean
        if unit in ("stream", "process"):
            return self.num_streams, self.largest_over_mean
        if unit == "stripe":
            return self.num_streams * (1 if self.num_stripes is None else self.num_stripes), self.largest_over_mean
        return 1, 1.0

    def process_bytes_per_second_at(self, rates: Rates) -> Numbers | None:
        """What one process writes that writes all: as the rates say, else as is assumed; None where none does.

        Where the rates say what one stream does, nothing is assumed beside it.
        """
        assumed, given = self.process_bytes_per_second, rates.process_bytes_per_second
        if assumed is None or given is not None:
            return None if assumed is None else given
        return assumed if rates.stream_bytes_per_second is None else None

    def process_seconds(self, rates: Rates) -> Numbers:
        """The time that the process with most bytes takes for its own work; 0 where that does not limit."""
        rate = self.process_bytes_per_second_at(rates)
        if rate is None:
            return 0.0
        return shared_seconds(
            self.total_bytes,
            num_units=self.num_streams,
            unit_bytes_per_second=rate,
            largest_over_mean=self.largest_over_mean,
        )


def in_turn(demands: Iterable[Demand]) -> Iterator[Demand]:
    """Yield the steps of one transfer, each with the bytes of those before it, which share a cache with it.

    >>> [step.moved_before_bytes for step in in_turn([Demand(8, 1, 1, 1), Demand(4, 1, 1, 1)])]
    [0, 8]
    """
    moved: Numbers = 0
    for demand in demands:
        yield replace(demand, moved_before_bytes=moved)
        moved = moved + demand.total_bytes


def is_storage_known(rates: Rates, terms: Terms) -> bool:
    """Tell whether a rate of the storage is among the terms: adapters and processes work at rates of their own.

    >>> alone = Rates()
    >>> is_storage_known(alone, shared_terms(alone, Demand(8.0, 1, 1, 1, process_bytes_per_second=2.0)))
    False
    """
    others: set[Resource] = {"storage-network"}
    if rates.stream_bytes_per_second is None:
        others.add("writer")
    return bool(terms.keys() - others)


def shared_terms(rates: Rates, demand: Demand) -> Terms:
    """Seconds of each resource that all bytes pass through at once: the slowest hides the others.

    Of many writers, or nodes, the one with most bytes is the last.
    """
    known = rates._replace(process_bytes_per_second=demand.process_bytes_per_second_at(rates)).known("shared")
    if demand.num_stripes is None and rates.stripe_bytes_per_second is not None:
        if rates.stripe_count is None:
            del known["stripe_bytes_per_second"]  # how many stripes limit is not known
        else:
            demand = replace(demand, num_stripes=rates.stripe_count)
    terms: Terms = {}
    for name, rate in known.items():
        term = TERMS[name]
        num_units, imbalance = demand.units(term.unit)
        moved = demand.total_bytes
        if term.unit == "system":
            moved = file_system_bytes(rates, demand)
        elif term.unit == "cache":
            moved = drained_bytes(rates, demand)
        seconds = shared_seconds(moved, num_units=num_units, unit_bytes_per_second=rate, largest_over_mean=imbalance)
        others = terms.get(term.resource)
        terms[term.resource] = seconds if others is None else np.maximum(others, seconds)
    if demand.node_network_bytes_per_second is not None:
        terms["storage-network"] = demand.network_seconds
    return _in_order(terms)


def _in_order(terms: Terms) -> Terms:
    """The terms in the order of an answer, in which the first of the longest ones is the bottleneck."""
    return {resource: terms[resource] for resource in RESOURCES if resource in terms}


def file_system_bytes(rates: Rates, demand: Demand) -> Numbers:
    """Bytes that the file system would move in the same time without contention.

    Source: `transfer.contended_bytes`.

    >>> file_system_bytes(Rates(writer_contention_fraction=0.5), Demand(8.0, 3, 1, 3))
    np.float64(16.0)
    """
    if not rates.has_contention:
        return demand.total_bytes
    return contended_bytes(
        demand.total_bytes,
        num_streams=demand.num_streams,
        num_nodes=demand.num_nodes,
        writer_fraction=0.0 if rates.writer_contention_fraction is None else rates.writer_contention_fraction,
        node_fraction=0.0 if rates.node_contention_fraction is None else rates.node_contention_fraction,
    )


def drained_bytes(rates: Rates, demand: Demand) -> Numbers:
    """Bytes that the storage drains of a full cache before it takes them.

    Source: `transfer.beyond_cache_bytes`, less what earlier steps moved beyond it.

    >>> float(drained_bytes(Rates(cache_bytes=4.0), Demand(10.0, 1, 1, 1)))
    6.0
    """
    held, before = 0.0 if rates.cache_bytes is None else rates.cache_bytes, demand.moved_before_bytes
    return beyond_cache_bytes(before + demand.total_bytes, cache_bytes=held) - beyond_cache_bytes(
        before, cache_bytes=held
    )


def serial_terms(rates: Rates, demand: Demand) -> Terms:
    """Seconds of each step that nothing overlaps and that each demand pays anew."""
    if rates.planning_seconds_per_rank is None and _is_any(demand.planning_seconds_per_rank):
        rates = rates._replace(planning_seconds_per_rank=demand.planning_seconds_per_rank)
    terms: Terms = {}
    for name, value in rates.known("serial").items():
        term = TERMS[name]
        seconds: Numbers
        match term.unit:
            case "once":
                continue
            case "gpu":
                seconds = np.divide(demand.largest_linked_bytes, value)
            case "rank":
                if not _is_any(demand.num_planned_ranks):
                    continue
                seconds = planning_seconds(demand.num_planned_ranks, seconds_per_rank=value)
            case _ if name.endswith("per_second"):
                seconds = files_seconds(demand.num_files, files_per_second=value)
            case _:
                latency = file_latency_seconds(demand.num_files, num_streams=demand.num_streams, seconds_per_file=value)
                seconds = latency * np.greater(demand.total_bytes, 0)
        terms[term.resource] = seconds
    if _is_any(demand.compression_seconds):
        terms["compression"] = demand.compression_seconds
    stream = rates.stream_bytes_per_second
    if stream is not None and _is_any(demand.metadata_bytes):  # the plans leave these to one stream
        moved = shared_seconds(demand.metadata_bytes, num_units=1, unit_bytes_per_second=stream)
        terms["metadata"] = terms.get("metadata", 0.0) + moved
    return _in_order(terms)


def once_terms(rates: Rates) -> Terms:
    """Seconds of what a whole save or restore pays once, whatever its demands."""
    return {TERMS[name].resource: seconds for name, seconds in rates.known("serial", "once").items()}


def total_seconds(rates: Rates, demands: Sequence[Demand]) -> Numbers:
    """Time of demands one after the other, whose rates give at least one shared resource.

    Source: `transfer.transfer_seconds`, for each demand, and what is paid once.

    >>> float(total_seconds(Rates(file_system_bytes_per_second=2.0), [Demand(8, 1, 1, 1)]))
    4.0
    """
    seconds = sum(once_terms(rates).values(), start=np.float64(0.0))
    for demand in demands:
        serial = sum(serial_terms(rates, demand).values(), start=np.float64(0.0))
        seconds = seconds + transfer_seconds(serial, *shared_terms(rates, demand).values(), knee_power=rates.knee_power)
    return seconds


def _is_any(value: Numbers) -> bool:
    """Whether a number, or any of an array, is not 0."""
    return bool(value if isinstance(value, int | float) else np.any(value))
