"""How ranks find each other: the store that they share, by the variables of the launcher."""

from __future__ import annotations

import os
import resource
from datetime import timedelta

from io_bench.errors import RanksLost
from io_bench.ranks.bounded_store import BoundedStore, LocalStore, Store
from io_bench.ranks.placement import Placement
from sizing.errors import InvalidInput
from sizing.units import seconds_text


def store_for(placement: Placement, *, limit_seconds: float) -> Store:
    """The store that this rank shares with its peers.

    Raises InvalidInput where the environment does not say how to meet, RanksLost where no meeting comes
    about within `limit_seconds`.
    """
    if placement.num_ranks == 1:
        return LocalStore()
    _allow_connections()
    # Otherwise a lost peer makes torch print a C++ stack trace between our sentences.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # A second that --help and bad input need not wait.
    from torch.distributed.distributed_c10d import PrefixStore  # noqa: PLC0415
    from torch.distributed.rendezvous import rendezvous  # noqa: PLC0415

    try:
        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=limit_seconds)))
    except ValueError as error:
        rule = f"must have the variables of a launcher ({error})"
        raise InvalidInput.of(
            "the environment", rule, value=None, remedy="start the ranks with torchrun or srun"
        ) from error
    except RuntimeError as error:
        message = f"The {placement.num_ranks} ranks did not all start within {seconds_text(limit_seconds)}."
        raise RanksLost([], message) from error
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    is_hosted_by_launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = PrefixStore(f"ckpt-bench/{attempt}", store)
    return BoundedStore(store, limit_seconds, is_hosted_by_launcher=is_hosted_by_launcher)


def _allow_connections() -> None:
    """Let this process open as many files as it may: where it hosts the store, every rank connects to it."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
