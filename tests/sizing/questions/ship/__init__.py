"""How long a checkpoint takes to another site: a question that docs/extending.md adds."""
