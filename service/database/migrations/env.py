"""Alembic's entry: run the migrations on the connection that the service has opened."""

from alembic import context

from service.database.tables import Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
