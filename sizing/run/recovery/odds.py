"""How likely nodes lack: Erlang's loss formula for spares, the binomial for groups."""

from __future__ import annotations

import numpy as np

from sizing.storage.transfer import Numbers


def spares_run_out_fraction(num_spares: Numbers, *, offered_repairs: Numbers) -> Numbers:
    """Probability that a failure finds every spare in repair: Erlang's B(s, a) = a B(s - 1, a) / (s + a B(s - 1, a)).

    Args: s spares; a, repairs under way on average if none were ever waited for: failures per second x repair seconds.
    Source: Erlang 1917, Elektroteknikeren 13, the loss formula B(s, a), B(0, a) = 1. The job is the source of the load:
    it fails while at most s nodes are in repair, and waits with s + 1. It holds for any distribution of repair times
    (Sevastyanov 1957), if repairs do not wait for each other.

    >>> [round(float(spares_run_out_fraction(s, offered_repairs=1.5)), 4) for s in (0, 1, 2, 3)]
    [1.0, 0.6, 0.3103, 0.1343]
    """
    found: Numbers = np.ones(np.broadcast_shapes(np.shape(num_spares), np.shape(offered_repairs)))
    for spare in range(1, int(np.max(num_spares)) + 1):
        further = np.multiply(offered_repairs, found)
        found = np.where(np.less_equal(spare, num_spares), further / (spare + further), found)
    return found


def wait_for_node_seconds(num_spares: Numbers, *, offered_repairs: Numbers, repair_seconds: Numbers) -> Numbers:
    """Mean wait for a node of a failure, over all that lose one: B(s, a) T / (s + 1).

    Args: s spares, a as above, T mean seconds of a repair. The share of the time in which s + 1 nodes are in repair is
    B(s + 1, a), which is a w / (T + a w) of this wait w.
    Source: Erlang's loss formula, and the renewal reward theorem on the time with s + 1 in repair.

    >>> float(wait_for_node_seconds(0, offered_repairs=0.5, repair_seconds=3600.0))
    3600.0
    >>> waits = wait_for_node_seconds(1, offered_repairs=1.5, repair_seconds=100.0)
    >>> round(float(waits), 2), round(float(1.5 * waits / (100.0 + 1.5 * waits)), 4)
    (30.0, 0.3103)
    """
    runs_out = spares_run_out_fraction(num_spares, offered_repairs=offered_repairs)
    wait: Numbers = runs_out * repair_seconds / np.add(num_spares, 1.0)
    return wait


def group_up_fraction(*, group_mtbf_seconds: Numbers, repair_seconds: Numbers) -> Numbers:
    """Share of the time for which one group trains: M / (M + T).

    Source: alternating renewal process, Barlow and Proschan 1975, Statistical Theory of Reliability and Life Testing.

    >>> float(group_up_fraction(group_mtbf_seconds=9e5, repair_seconds=1e5))
    0.9
    """
    up: Numbers = np.divide(group_mtbf_seconds, np.add(group_mtbf_seconds, repair_seconds))
    return up


def groups_throughput_fraction(num_groups: Numbers, *, min_groups: Numbers, up_fraction: Numbers) -> Numbers:
    """Mean share of all groups that train, where at least m of N must: sum over k >= m of k/N Bin(k; N, u).

    That is u P(at least m - 1 of the other N - 1 are up) = u I_u(m - 1, N - m + 1), the regularized incomplete beta
    function.
    Source: binomial distribution; k-out-of-n systems, Barlow and Proschan 1975; NIST DLMF 8.17.5. Groups fail and are
    repaired each by itself, also while too few of them train.

    >>> float(groups_throughput_fraction(8, min_groups=1, up_fraction=0.9))
    0.9
    >>> round(float(groups_throughput_fraction(2, min_groups=2, up_fraction=0.9)), 3)
    0.81
    """
    from scipy.special import betainc  # noqa: PLC0415 - only runs that shrink need it

    others = np.subtract(min_groups, 1.0)
    spare = np.subtract(num_groups, others)
    enough = np.where(
        np.greater(spare, 0.0), betainc(np.maximum(others, 1.0), np.maximum(spare, 1.0), up_fraction), 0.0
    )
    share: Numbers = up_fraction * np.where(np.less_equal(others, 0.0), 1.0, enough)
    return share


def stopped_fraction_of_pause(num_groups: Numbers, *, min_groups: Numbers, up_fraction: Numbers) -> Numbers:
    """Share of a pause after a failure that costs throughput beside that of the groups that lack: of all groups' mean.

    The struck group lacks anyway, and where too few are left nothing trains: ((N - 1)/N) t(N - 1, m) / t(N, m), t of
    `groups_throughput_fraction`.
    Source: definition; the other N - 1 groups are up independently when one fails.

    >>> float(stopped_fraction_of_pause(8, min_groups=1, up_fraction=0.9))
    0.875
    >>> float(stopped_fraction_of_pause(2, min_groups=2, up_fraction=0.9))
    0.0
    """
    others = np.subtract(num_groups, 1.0)
    left = groups_throughput_fraction(others, min_groups=min_groups, up_fraction=up_fraction)
    whole = groups_throughput_fraction(num_groups, min_groups=min_groups, up_fraction=up_fraction)
    share: Numbers = others / num_groups * left / whole
    return share


def all_copies_lost_fraction(num_copies: Numbers, *, window_seconds: Numbers, node_mtbf_seconds: Numbers) -> Numbers:
    """Probability that a failure finds the other copies of a shard lost: (1 - e^(-W/M))^(c - 1).

    Args: c copies in as many nodes, W seconds for which a lost copy is not back, M mean time between failures of one
    node. Source: binomial, all of c - 1; to first order in W over the job's time between failures, as a recovery that
    is struck takes longer.

    >>> round(float(all_copies_lost_fraction(2, window_seconds=600.0, node_mtbf_seconds=6e6)), 6)
    0.0001
    """
    lost: Numbers = np.power(-np.expm1(-np.divide(window_seconds, node_mtbf_seconds)), np.subtract(num_copies, 1.0))
    return lost
