"""Run migrations on the connection that `service.database.schema` has opened and locked."""

from alembic import context

from service.database.tables import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
