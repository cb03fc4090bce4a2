"""Every recovery strategy by its name."""

from __future__ import annotations

from collections.abc import Mapping

from sizing.run.interruptions import StrategyName
from sizing.run.recovery.base import RecoveryStrategy
from sizing.run.recovery.peers import PEERS
from sizing.run.recovery.restart import RESTART, SPARES
from sizing.run.recovery.shrink import SHRINK

STRATEGIES: Mapping[StrategyName, RecoveryStrategy] = {
    strategy.name: strategy for strategy in (RESTART, SPARES, PEERS, SHRINK)
}
