"""What the service remembers: tokens and scenarios."""

from service.database.engine import Database, open_database
from service.database.tables import ScenarioRow, Scope, TokenRow

__all__ = ["Database", "ScenarioRow", "Scope", "TokenRow", "open_database"]
