"""Where a figure comes from: what was assumed because nobody said otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, JsonValue


class Assumption(BaseModel):
    """A value that the answer rests on and that the scenario did not state."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: str
    value: JsonValue
    reason: str

    @property
    def sentence(self) -> str:
        """The assumption for a reader.

        >>> Assumption(field="checkpoint.mode", value="sync", reason="default").sentence
        'checkpoint.mode = sync (default)'
        """
        return f"{self.field} = {self.value} ({self.reason})"


def defaults_used(block: BaseModel, path: str = "") -> Iterator[Assumption]:
    """Every default, block by block, that took effect because the field was not given.

    Fields whose default is None state nothing and are left out.
    """
    for name, info in type(block).model_fields.items():
        value, field = getattr(block, name), f"{path}{name}"
        if isinstance(value, BaseModel):
            yield from defaults_used(value, f"{field}.")
        elif name not in block.model_fields_set and value is not None:
            shown = list(value) if isinstance(value, tuple) else value
            yield Assumption(field=field, value=shown, reason=_reason(info.json_schema_extra))


def _reason(extra: object) -> str:
    source = extra.get("source") if isinstance(extra, dict) else None
    return f"default: {source}" if source else "default"
