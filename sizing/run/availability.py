"""How likely nodes lack after a failure: Erlang's loss formula for spares, the binomial for groups."""

from __future__ import annotations

import numpy as np

from sizing.run.levels import MAX_EXPONENT, MIN_PROBABILITY
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
    runs_out: Numbers = np.ones(np.broadcast_shapes(np.shape(num_spares), np.shape(offered_repairs)))
    for spare in range(1, int(np.max(num_spares)) + 1):
        further = np.multiply(offered_repairs, runs_out)
        runs_out = np.where(np.less_equal(spare, num_spares), further / (spare + further), runs_out)
    return runs_out


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


def away_seconds(node_lost_fraction: Numbers, *, repair_seconds: Numbers, restart_seconds: Numbers) -> Numbers:
    """Mean time for which a failure takes a group away: f T + (1 - f) R.

    Args: f of the failures take a node, T mean seconds of its repair, R seconds of a restart in the nodes that stay.
    Source: definition; the share of the time that a group is up depends on this mean alone, whatever the distribution
    (alternating renewal process).

    >>> away_seconds(0.25, repair_seconds=21_600.0, restart_seconds=400.0)
    5700.0
    """
    away: Numbers = node_lost_fraction * repair_seconds + (1.0 - node_lost_fraction) * restart_seconds
    return away


def group_up_fraction(*, group_mtbf_seconds: Numbers, repair_seconds: Numbers) -> Numbers:
    """Share of the time for which one group trains: M / (M + T).

    Source: alternating renewal process, Barlow and Proschan 1975, Statistical Theory of Reliability and Life Testing.

    >>> float(group_up_fraction(group_mtbf_seconds=9e5, repair_seconds=1e5))
    0.9
    """
    up: Numbers = np.divide(group_mtbf_seconds, np.add(group_mtbf_seconds, repair_seconds))
    return up


def enough_groups_fraction(num_groups: Numbers, *, min_groups: Numbers, up_fraction: Numbers) -> Numbers:
    """Share of the time for which at least m of N groups are up: I_u(m, N - m + 1); 0 where m is more than N.

    I is the regularized incomplete beta function.
    Source: binomial distribution; k-out-of-n systems, Barlow and Proschan 1975; NIST DLMF 8.17.5. Groups fail and are
    repaired each by itself, also while too few of them train.

    >>> round(float(enough_groups_fraction(2, min_groups=1, up_fraction=0.9)), 3)
    0.99
    """
    from scipy.special import betainc  # noqa: PLC0415 - only runs that shrink need it

    spare = np.subtract(num_groups, np.subtract(min_groups, 1.0))
    enough = np.where(
        np.greater(spare, 0.0), betainc(np.maximum(min_groups, 1.0), np.maximum(spare, 1.0), up_fraction), 0.0
    )
    share: Numbers = np.where(np.less_equal(min_groups, 0.0), 1.0, enough)
    return share


def groups_throughput_fraction(num_groups: Numbers, *, min_groups: Numbers, up_fraction: Numbers) -> Numbers:
    """Mean share of all groups that train, where at least m of N must: sum over k >= m of k/N Bin(k; N, u).

    That is u P(at least m - 1 of the other N - 1 are up), of `enough_groups_fraction`.
    Source: binomial distribution; k-out-of-n systems, Barlow and Proschan 1975.

    >>> float(groups_throughput_fraction(8, min_groups=1, up_fraction=0.9))
    0.9
    >>> round(float(groups_throughput_fraction(2, min_groups=2, up_fraction=0.9)), 3)
    0.81
    """
    others_up = enough_groups_fraction(
        np.subtract(num_groups, 1.0), min_groups=np.subtract(min_groups, 1.0), up_fraction=up_fraction
    )
    share: Numbers = up_fraction * others_up
    return share


def wait_for_groups_seconds(
    num_groups: Numbers,
    *,
    min_groups: Numbers,
    up_fraction: Numbers,
    within_fraction: Numbers,
    mtbf_seconds: Numbers,
    pause_seconds: Numbers,
) -> Numbers:
    """Mean wait for groups after a failure of a run that trains, beyond its pause: W e^(-p P / W), W = (1 - e) M / s.

    While at least m of N groups are up, failures strike them s = w t + (1 - w) e times as often as 1/M says, and leave
    fewer than m in a share p = w t (1 - e(N - 1, m) / e(N - 1, m - 1)) / s of the cases. W is the mean wait over all of
    them, and W / p of those that wait, which is taken as exponential. e is of `enough_groups_fraction`, e = e(N, m),
    and t of `groups_throughput_fraction`.
    Args: N, m, up fraction u; w of all failures strike one group alone; M mean seconds between failures of all groups,
    if none lacked; P seconds of the pause.
    Source: renewal reward theorem on the time in which fewer than m are up; binomial distribution.

    >>> eight = {"min_groups": 8, "within_fraction": 1.0, "mtbf_seconds": 36_000.0}
    >>> round(float(wait_for_groups_seconds(8, **eight, up_fraction=0.9302, pause_seconds=0.0)))
    28223
    """
    others, fewer = np.subtract(num_groups, 1.0), np.subtract(min_groups, 1.0)
    enough = enough_groups_fraction(num_groups, min_groups=min_groups, up_fraction=up_fraction)
    others_enough = enough_groups_fraction(others, min_groups=fewer, up_fraction=up_fraction)
    left_enough = enough_groups_fraction(others, min_groups=min_groups, up_fraction=up_fraction)
    strikes = within_fraction * up_fraction * others_enough + np.subtract(1.0, within_fraction) * enough
    wait = np.divide(np.subtract(1.0, enough) * mtbf_seconds, np.maximum(strikes, MIN_PROBABILITY))
    waiting = within_fraction * up_fraction * (others_enough - left_enough) / np.maximum(strikes, MIN_PROBABILITY)
    some = np.greater(wait, 0.0)
    in_pause = np.minimum(waiting * pause_seconds / np.where(some, wait, 1.0), MAX_EXPONENT)
    beyond: Numbers = np.where(some, wait * np.exp(-in_pause), 0.0)
    return beyond


def back_fraction_of_pause(*, pause_seconds: Numbers, repair_seconds: Numbers) -> Numbers:
    """Mean share of a pause for which the group that began it is back already: 1 - (T/P) (1 - e^(-P/T)).

    Args: P seconds of the pause, T mean seconds of a repair, which begins with it.
    Source: definition, for exponential repairs.

    >>> float(back_fraction_of_pause(pause_seconds=0.0, repair_seconds=3600.0))
    0.0
    >>> round(float(back_fraction_of_pause(pause_seconds=1200.0, repair_seconds=1800.0)), 4)
    0.2701
    """
    longer = np.divide(pause_seconds, repair_seconds)
    some = np.where(np.greater(longer, 0.0), longer, 1.0)
    back: Numbers = np.where(np.greater(longer, 0.0), 1.0 + np.expm1(-some) / some, 0.0)
    return back


def stopped_fraction_of_pause(
    num_groups: Numbers, *, min_groups: Numbers, up_fraction: Numbers, back_fraction: Numbers
) -> Numbers:
    """Share of a pause after a failure that costs throughput beside that of the groups that lack: of all groups' mean.

    While the struck group lacks, the others would train: ((N - 1)/N) t(N - 1, m). For a share b of the pause it is back
    and would train too, if at least m - 1 others do: e(N - 1, m - 1)/N + ((N - 1)/N) t(N - 1, m - 1). The mean of both
    is divided by t(N, m), t of `groups_throughput_fraction`, e of `enough_groups_fraction`.
    Source: definition; the other N - 1 groups are up independently when one fails. All wait for the end of the pause,
    also one that comes back within it.

    >>> float(stopped_fraction_of_pause(8, min_groups=1, up_fraction=0.9, back_fraction=0.0))
    0.875
    >>> float(stopped_fraction_of_pause(2, min_groups=2, up_fraction=0.9, back_fraction=0.0))
    0.0
    >>> round(float(stopped_fraction_of_pause(2, min_groups=2, up_fraction=0.9, back_fraction=0.27)), 4)
    0.3
    """
    others, fewer = np.subtract(num_groups, 1.0), np.subtract(min_groups, 1.0)
    left = others / num_groups * groups_throughput_fraction(others, min_groups=min_groups, up_fraction=up_fraction)
    enough = enough_groups_fraction(others, min_groups=fewer, up_fraction=up_fraction)
    back = enough / num_groups + others / num_groups * groups_throughput_fraction(
        others, min_groups=fewer, up_fraction=up_fraction
    )
    whole = groups_throughput_fraction(num_groups, min_groups=min_groups, up_fraction=up_fraction)
    share: Numbers = (left * np.subtract(1.0, back_fraction) + back * back_fraction) / whole
    return share


def pause_in_effect_seconds(
    pause_seconds: Numbers,
    *,
    stopped_fraction: Numbers,
    strikes_per_second: Numbers,
    renewals_per_second: Numbers | None = None,
) -> Numbers:
    """Pause that costs all of the throughput what one of P costs a share f of it: ln(1 + f l (e^(r P) - 1) / r) / l.

    Some strikes within a pause begin it anew, at the rate r, so one takes (e^(r P) - 1) / r on average until training
    goes on; the levels of a run count each strike so, at the rate l.
    Args: P seconds, f of `stopped_fraction_of_pause` or `stopped_fraction_of_rollback`, l strikes per second,
    `renewals_per_second` r. Default: every strike.
    Source: Daly 2006, the restart term of equation 20, solved for the pause.

    >>> round(float(pause_in_effect_seconds(620.0, stopped_fraction=0.875, strikes_per_second=1 / 18_000)), 2)
    543.66
    >>> round(float(pause_in_effect_seconds(620.0, stopped_fraction=1.0, strikes_per_second=1e-3,
    ...     renewals_per_second=1e-6)), 2)
    482.54
    """
    renewals = np.maximum(strikes_per_second if renewals_per_second is None else renewals_per_second, MIN_PROBABILITY)
    struck = np.minimum(np.multiply(renewals, pause_seconds), MAX_EXPONENT)
    lasts = np.multiply(stopped_fraction, np.expm1(struck) / renewals)
    seconds: Numbers = np.log1p(np.multiply(strikes_per_second, lasts)) / strikes_per_second
    return seconds


def stopped_fraction_of_rollback(
    recovery_seconds: Numbers,
    *,
    num_groups: Numbers,
    min_groups: Numbers,
    up_fraction: Numbers,
    repair_seconds: Numbers,
    last_fraction: Numbers,
) -> Numbers:
    """Share of a rollback's recovery that costs throughput beside that of the groups that lack.

    Where the last group is struck, none is up at first: each is up after s with the probability
    u_s = u (1 - e^(-s/(u T))), and while they are repaired the rollback costs nothing that is not counted already. So a
    share q of the rollbacks costs the mean of t(N, m, u_s) / t(N, m, u) over the recovery, t of
    `groups_throughput_fraction`. The others strike all groups alike and cost all of it.
    Args: seconds R of the recovery; N, m, u; T mean seconds of a repair; `last_fraction` q.
    Source: definition; u_s of the alternating renewal process with exponential times, Barlow and Proschan 1975. The
    mean is by Gauss and Legendre at 8 points.

    >>> late = {"num_groups": 2, "min_groups": 1, "up_fraction": 0.874, "repair_seconds": 933.8}
    >>> round(float(stopped_fraction_of_rollback(1354.0, **late, last_fraction=1.0)), 3)
    0.512
    >>> float(stopped_fraction_of_rollback(1354.0, **late, last_fraction=0.0))
    1.0
    """
    points, weights = np.polynomial.legendre.leggauss(8)
    whole = groups_throughput_fraction(num_groups, min_groups=min_groups, up_fraction=up_fraction)
    mean: Numbers = 0.0
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        passed = point * np.divide(recovery_seconds, np.multiply(up_fraction, repair_seconds))
        up = np.multiply(up_fraction, -np.expm1(-passed))
        mean = mean + weight * groups_throughput_fraction(num_groups, min_groups=min_groups, up_fraction=up)
    share: Numbers = 1.0 - np.multiply(last_fraction, 1.0 - mean / whole)
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
