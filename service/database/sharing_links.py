"""Sharing links: keys `ckptlink_ID_SECRET`, with which anybody can read one saved scenario and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from service.database.audit import Actor, require_own
from service.database.connection import Database
from service.database.scenarios import require_scenario
from service.database.tables import ScenarioRow, SharingLinkRow, new_id, now
from service.database.tokens import hash_of, is_secret_of, new_secret, parts_of
from service.errors import Conflict, NotFound
from sizing.errors import InvalidInput

_PREFIX = "ckptlink"
MAX_LINKS_OF_A_SCENARIO = 100
"""Max links of a scenario that hold at the same time: a list without pages."""


def make_link(
    database: Database, scenario_id: UUID, *, valid_seconds: float | None, by: Actor
) -> tuple[SharingLinkRow, str]:
    """Create a link to a scenario, with its key, which only its holders will know. Ended links are deleted.

    Args: `valid_seconds`, until it ends; None for one that does not.
    Raises NotFound, MissingScope, or Conflict where the scenario has as many links as it may have.
    """
    secret, made_at = new_secret(), now()
    row = SharingLinkRow(
        id=new_id(),
        scenario_id=scenario_id,
        secret_hash=hash_of(secret),
        created_at=made_at,
        expires_at=None if valid_seconds is None else made_at + timedelta(seconds=valid_seconds),
    )
    with database.writing() as session:
        _own_scenario(session, scenario_id, by)
        _require_room(session, scenario_id)
        row.token = by.token_in(session)
        session.add(row)
        by.record(session, "share", f"scenario {scenario_id} by link {row.id}")
    return row, f"{_PREFIX}_{row.id}_{secret}"


def list_links(database: Database, scenario_id: UUID, *, by: Actor) -> Sequence[SharingLinkRow]:
    """List the links of a scenario, the newest first. Raises NotFound or MissingScope."""
    query = select(SharingLinkRow).filter_by(scenario_id=scenario_id).order_by(SharingLinkRow.id.desc())
    with database.reading() as session:
        require_own(require_scenario(session.get(ScenarioRow, scenario_id), scenario_id), by, to="share")
        return session.scalars(query).all()


def withdraw_link(database: Database, scenario_id: UUID, link_id: UUID, *, by: Actor) -> None:
    """Delete a link, so that its key no longer works. Raises NotFound or MissingScope."""
    with database.writing() as session:
        _own_scenario(session, scenario_id, by)
        row = session.get(SharingLinkRow, link_id)
        if row is None or row.scenario_id != scenario_id:
            raise no_link(link_id)
        session.delete(row)
        by.record(session, "withdraw", f"link {link_id} of scenario {scenario_id}")


def scenario_shared_by(database: Database, key: str) -> UUID | None:
    """Return the id of the scenario that a link reads; None for no link, or one that has ended or was withdrawn."""
    link_id, secret = parts_of(key, _PREFIX)
    try:
        wanted = UUID(link_id)
    except ValueError:
        return None
    with database.reading() as session:
        row = session.get(SharingLinkRow, wanted)
    return row.scenario_id if row and is_secret_of(secret, row.secret_hash) and row.holds else None


def no_link(link_id: object) -> InvalidInput:
    """Return the error for an id without a link of the scenario."""
    return NotFound.of(
        "id",
        "must be the id of a sharing link of the scenario",
        value=link_id,
        remedy="list them with GET /v1/scenarios/ID/links",
    )


def _own_scenario(session: Session, scenario_id: UUID, by: Actor) -> None:
    """Lock the scenario and check that it may be shared. Raises NotFound or MissingScope."""
    row = session.get(ScenarioRow, scenario_id, with_for_update=True)
    require_own(require_scenario(row, scenario_id), by, to="share")


def _require_room(session: Session, scenario_id: UUID) -> None:
    """Delete links that have ended. Raises Conflict where the max number still holds."""
    of_scenario = SharingLinkRow.scenario_id == scenario_id
    session.execute(delete(SharingLinkRow).where(of_scenario, SharingLinkRow.expires_at <= now()))
    if session.scalars(select(func.count()).where(of_scenario)).one() >= MAX_LINKS_OF_A_SCENARIO:
        rule = f"has {MAX_LINKS_OF_A_SCENARIO} sharing links, as many as it may have"
        raise Conflict.of("the scenario", rule, value=None, remedy="withdraw one")
