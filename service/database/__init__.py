"""What the service keeps: tables, connections, migrations."""
