"""Database: tokens, scenarios, storage systems, their runs and calibrations, and an audit log of every change."""

from service.database.audit import Actor
from service.database.connection import Database, open_database
from service.database.tables import Scope, TokenRow

__all__ = ["Actor", "Database", "Scope", "TokenRow", "open_database"]
