"""What the service remembers: tokens, scenarios, storage systems, their runs and calibrations, and every change."""

from service.database.audit import Actor
from service.database.connection import Database, open_database
from service.database.tables import Scope, TokenRow

__all__ = ["Actor", "Database", "Scope", "TokenRow", "open_database"]
