"""The state of a pickle that is being read: bytes, stack and memo, with bounds on each step."""

from __future__ import annotations

import struct
from collections.abc import Callable

from sizing.checkpoint_files.pickle_values import MAX_OBJECTS, MAX_OPEN_MARKS, Name, RefusedPickle


class PickleStack:
    """Where reading stands. `allows` says of a dotted name whether the pickle may mention it."""

    def __init__(self, data: bytes, *, allows: Callable[[str], bool]) -> None:
        self.data = data
        self.at = 0
        self.values: list[object] = []
        self.memo: list[object] = []
        self._allows = allows
        self._names: dict[str, Name] = {}
        self._below_marks: list[list[object]] = []
        self._num_objects = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self.at + size
        if end > len(self.data):
            raise RefusedPickle("it ends in the middle of a value")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def take_number(self, layout: struct.Struct) -> int:
        """The next bytes as the one number that `layout` describes."""
        number: int = layout.unpack_from(self.data, self.at)[0]
        self.at += layout.size
        return number

    def take_line(self) -> str:
        """The text up to the next line end."""
        end = self.data.index(b"\n", self.at)
        line = self.data[self.at : end].decode()
        self.at = end + 1
        return line

    def push_object(self, made: object) -> None:
        """Put a new tuple, list, dict or object on the stack."""
        self._num_objects += 1
        if self._num_objects > MAX_OBJECTS:
            raise RefusedPickle(f"it makes more than {MAX_OBJECTS} objects")
        self.values.append(made)

    def memoize(self, index: int) -> None:
        """Remember the value on top under an index; picklers count these up from 0."""
        if index > len(self.memo):
            raise RefusedPickle(f"it remembers a value as number {index}, out of turn")
        self.memo[index : index + 1] = [self.values[-1]]

    def mark(self) -> None:
        """Begin a run of values that a later instruction takes together."""
        if len(self._below_marks) >= MAX_OPEN_MARKS:
            raise RefusedPickle(f"it nests deeper than {MAX_OPEN_MARKS} levels")
        self._below_marks.append(self.values)
        self.values = []

    def take_marked(self) -> list[object]:
        """The values since the last mark."""
        marked = self.values
        self.values = self._below_marks.pop()
        return marked

    def name(self, module: str, qualified_name: str) -> Name:
        """The name of a class or function, if a checkpoint may hold it.

        This stands where `pickle.Unpickler` has `find_class`: nothing is imported or looked up.
        """
        text = f"{module}.{qualified_name}"
        known = self._names.get(text)
        if known is None:
            if not self._allows(text):
                raise RefusedPickle(f"it names {_shortened(text)}, which no plain checkpoint needs")
            known = self._names[text] = Name(text)
        return known


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")
