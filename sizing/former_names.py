"""Former names of fields: documents with a former name can still be read."""

from __future__ import annotations

from collections.abc import Mapping


def with_new_names(document: object, new_names: Mapping[str, str]) -> object:
    """Replace the former names in a document. Where it has both, the new one counts.

    >>> with_new_names({"least": 1, "warnings": []}, {"least": "needed"})
    {'needed': 1, 'warnings': []}
    >>> with_new_names({"least": 1, "needed": 2}, {"least": "needed"})
    {'needed': 2}
    """
    if not isinstance(document, Mapping):
        return document
    return {new_names.get(name, name): value for name, value in document.items() if new_names.get(name) not in document}
