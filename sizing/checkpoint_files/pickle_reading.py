"""Read a pickle as data: list the objects that it describes, without building one of them.

A pickle is a program; `pickle.load` runs it. This module follows the program on a stack of its own and keeps
a call as its name and arguments. Restricting `pickle.Unpickler` by `find_class` would stop the calls but not
the rest: it hashes tuples without a bound on their depth (a 3 MB file crashes the process, 60 nested pairs
never end), it makes room for any memo index that the file claims, and it lets a file set attributes of the
classes that are allowed.

The instructions that torch's checkpoints use each only move data. Source: CPython `Lib/pickletools.py`; protocols 2
(torch.save) and 4 or 5 (`.metadata`). The text instructions of protocol 0, extension codes and out-of-band buffers are
left out, and with them a pickle that uses one.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeGuard

MAX_PICKLE_BYTES = 128 * 1024**2
"""Max size of a pickle. A torch.save file has about 127 bytes for a tensor, so this is a million tensors; of
`.metadata`, 700,000 shards.
"""
MAX_INSTRUCTIONS = 64_000_000
"""Max instructions: twice as many as torch needs for MAX_PICKLE_BYTES, at 4 bytes each; half a minute at 0.5 us."""
MAX_OBJECTS = 16_000_000
"""Max tuples, lists, dicts and objects, which take the most memory for the fewest bytes of a file."""
MAX_OPEN_MARKS = 1_000
"""Max open marks: torch nests a few levels, and a file of marks alone would fill memory."""
MAX_NAME_CHARACTERS = 1_000
"""Max length of a tensor's name, or of a key on the way to it; the longest of real models have about 150 characters."""
MAX_INTEGER_BYTES = 64
"""Max length of a whole number. torch's own need 9 bytes; the time to read one grows with its square."""


class RefusedPickle(ValueError):
    """Pickle that is damaged, hostile or not one of torch's; the message states the reason."""


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """Dotted name of a class or function that a pickle mentions."""

    text: str


@dataclass(slots=True, eq=False)
class Inert:
    """Object that a pickle would have built: the name that it calls, and the arguments.

    `state` is the argument that `__setstate__` would have got. `items` is what would have been appended or set, if
    anything.
    """

    name: str
    arguments: tuple[object, ...] = ()
    state: object = None
    items: list[object] | None = None

    def add(self, items: list[object]) -> None:
        """Keep items that the pickle appends to the object or sets in it."""
        if self.items is None:
            self.items = []
        self.items.extend(items)


PERSISTENT = "persistent id"
"""The `name` of an Inert that stands for an object outside the pickle; its one argument is the id."""


def is_count(value: object) -> TypeGuard[int]:
    """Return whether `value` is a number of elements or bytes that torch could have written: 0 to 2^63 - 1.

    >>> is_count(2**63 - 1), is_count(2**63), is_count(-1), is_count(True)
    (True, False, False, False)
    """
    return type(value) is int and 0 <= value < 2**63


def is_dictionary_key(value: object) -> bool:
    """Return whether torch's own pickles could have `value` as a key of a dict.

    Long numbers and tuples of tuples are refused: an attacker could choose their hashes, or make hashing take for ever.

    >>> [is_dictionary_key(key) for key in ("step", 0, ("a", 1), 2**40, ((1,), 2))]
    [True, True, False, False, False]
    """
    if isinstance(value, tuple):
        return len(value) <= 8 and all(isinstance(item, (str, Name)) for item in value)
    if isinstance(value, int):
        return -(2**31) <= value < 2**31
    return value is None or isinstance(value, (str, Name, Inert))


class PickleStack:
    """State of the reader. `allows` returns whether the pickle may mention a dotted name."""

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
        """Take the next `size` bytes."""
        end = self.at + size
        if end > len(self.data):
            raise RefusedPickle("it ends in the middle of a value")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def take_number(self, layout: struct.Struct) -> int:
        """Return the next bytes as the one number that `layout` describes."""
        number: int = layout.unpack_from(self.data, self.at)[0]
        self.at += layout.size
        return number

    def take_line(self) -> str:
        """Return the text up to the next end of line."""
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
        """Store the value on top under an index; picklers count indices up from 0."""
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
        """Take the values since the last mark off the stack."""
        marked = self.values
        self.values = self._below_marks.pop()
        return marked

    def name(self, module: str, qualified_name: str) -> Name:
        """Return the name of a class or function, if a checkpoint may mention it.

        It takes the place of `find_class` in `pickle.Unpickler`: nothing is imported or looked up.
        """
        text = f"{module}.{qualified_name}"
        known = self._names.get(text)
        if known is None:
            if not self._allows(text):
                short = text if len(text) <= 80 else text[:79] + "…"
                raise RefusedPickle(f"it names {short!r}, which no plain checkpoint needs")
            known = self._names[text] = Name(text)
        return known


Opcode = Callable[[PickleStack], None]

EMPTY_DICTIONARIES = frozenset({"collections.OrderedDict", "collections.defaultdict"})
SIZE = "torch.Size"
GETATTR = frozenset({"builtins.getattr", "__builtin__.getattr"})
NEWEST_PROTOCOL = 5
"""Newest protocol of Python; torch writes 2."""

_BYTE, _TWO_BYTES = struct.Struct("<B"), struct.Struct("<H")
_FOUR_BYTES, _EIGHT_BYTES = struct.Struct("<I"), struct.Struct("<Q")
_SIGNED, _FLOAT = struct.Struct("<i"), struct.Struct(">d")


def _check_protocol(stack: PickleStack) -> None:
    if stack.take_number(_BYTE) > NEWEST_PROTOCOL:
        raise RefusedPickle(f"its pickle protocol is newer than {NEWEST_PROTOCOL}")


def _check_frame(stack: PickleStack) -> None:
    size = stack.take_number(_EIGHT_BYTES)
    if stack.at + size > len(stack.data):
        raise RefusedPickle("a frame reaches beyond its end")


def _push_value(value: object) -> Opcode:
    return lambda stack: stack.values.append(value)


def _push_number(layout: struct.Struct) -> Opcode:
    return lambda stack: stack.values.append(stack.take_number(layout))


def _push_integer(stack: PickleStack) -> None:
    size = stack.take_number(_BYTE)
    if size > MAX_INTEGER_BYTES:
        raise RefusedPickle(f"a whole number takes {size} bytes, more than {MAX_INTEGER_BYTES}")
    stack.values.append(int.from_bytes(stack.take(size), "little", signed=True))


def _push_text(size: struct.Struct, encoding: str = "utf-8") -> Opcode:
    return lambda stack: stack.values.append(stack.take(stack.take_number(size)).decode(encoding))


def _push_bytes(size: struct.Struct) -> Opcode:
    return lambda stack: stack.values.append(stack.take(stack.take_number(size)))


def _push_tuple_of(size: int) -> Opcode:
    def opcode(stack: PickleStack) -> None:
        values = stack.values
        if len(values) < size:
            raise RefusedPickle("a tuple takes more values than there are")
        taken = tuple(values[-size:])
        del values[-size:]
        stack.push_object(taken)

    return opcode


def _append(stack: PickleStack, items: list[object]) -> None:
    target = stack.values[-1]
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, Inert):
        target.add(items)
    else:
        raise RefusedPickle("it appends to something that is not a list")


def _set_item(stack: PickleStack) -> None:
    value, key = stack.values.pop(), stack.values.pop()
    _set_items(stack, [key, value])


def _set_items(stack: PickleStack, pairs: list[object]) -> None:
    target = stack.values[-1]
    if isinstance(target, Inert):
        target.add(pairs)
        return
    if not isinstance(target, dict) or len(pairs) % 2:
        raise RefusedPickle("it sets items of something that is not a dict")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if not is_dictionary_key(key):
            raise RefusedPickle("it has a dict key of a kind that no checkpoint has")
        target[key] = value


def _put(index: struct.Struct) -> Opcode:
    return lambda stack: stack.memoize(stack.take_number(index))


def _get(index: struct.Struct) -> Opcode:
    return lambda stack: stack.values.append(stack.memo[stack.take_number(index)])


def _push_name(stack: PickleStack) -> None:
    name, module = stack.values.pop(), stack.values.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise RefusedPickle("it names a class by something that is not text")
    stack.values.append(stack.name(module, name))


def _call(stack: PickleStack) -> None:
    """Keep the call of REDUCE or NEWOBJ as data."""
    arguments, called = stack.values.pop(), stack.values.pop()
    if not isinstance(called, Name) or not isinstance(arguments, tuple):
        raise RefusedPickle("it calls something that is not a class or function")
    if called.text in GETATTR and list(map(type, arguments)) != [Name, str]:
        raise RefusedPickle("it asks for an attribute of something that is not an enumeration")
    if called.text == SIZE and len(arguments) == 1 and isinstance(arguments[0], tuple):
        stack.values.append(arguments[0])
    elif called.text in EMPTY_DICTIONARIES and not any(isinstance(item, (list, dict)) for item in arguments):
        stack.push_object({})
    else:
        stack.push_object(Inert(called.text, arguments))


def _build(stack: PickleStack) -> None:
    state, target = stack.values.pop(), stack.values[-1]
    if isinstance(target, Inert):
        target.state = state
    elif not isinstance(target, dict):  # an OrderedDict's attributes hold versions of modules, never tensors
        raise RefusedPickle("it gives a state to something that has none")


OPCODES: dict[int, Opcode] = {
    code[0]: opcode
    for code, opcode in {
        pickle.PROTO: _check_protocol,
        pickle.FRAME: _check_frame,
        pickle.MARK: PickleStack.mark,
        pickle.NONE: _push_value(None),
        pickle.NEWTRUE: _push_value(True),
        pickle.NEWFALSE: _push_value(False),
        pickle.BININT: _push_number(_SIGNED),
        pickle.BININT1: _push_number(_BYTE),
        pickle.BININT2: _push_number(_TWO_BYTES),
        pickle.LONG1: _push_integer,
        pickle.BINFLOAT: _push_number(_FLOAT),
        pickle.SHORT_BINUNICODE: _push_text(_BYTE),
        pickle.BINUNICODE: _push_text(_FOUR_BYTES),
        pickle.SHORT_BINSTRING: _push_text(_BYTE, "latin-1"),
        pickle.BINSTRING: _push_text(_FOUR_BYTES, "latin-1"),
        pickle.SHORT_BINBYTES: _push_bytes(_BYTE),
        pickle.BINBYTES: _push_bytes(_FOUR_BYTES),
        pickle.BINBYTES8: _push_bytes(_EIGHT_BYTES),
        pickle.BYTEARRAY8: _push_bytes(_EIGHT_BYTES),
        pickle.EMPTY_TUPLE: _push_value(()),
        pickle.TUPLE1: _push_tuple_of(1),
        pickle.TUPLE2: _push_tuple_of(2),
        pickle.TUPLE3: _push_tuple_of(3),
        pickle.TUPLE: lambda stack: stack.push_object(tuple(stack.take_marked())),
        pickle.EMPTY_LIST: lambda stack: stack.push_object([]),
        pickle.APPEND: lambda stack: _append(stack, [stack.values.pop()]),
        pickle.APPENDS: lambda stack: _append(stack, stack.take_marked()),
        pickle.EMPTY_DICT: lambda stack: stack.push_object({}),
        pickle.SETITEM: _set_item,
        pickle.SETITEMS: lambda stack: _set_items(stack, stack.take_marked()),
        pickle.EMPTY_SET: lambda stack: stack.push_object(Inert("builtins.set")),
        pickle.ADDITEMS: lambda stack: _append(stack, stack.take_marked()),
        pickle.FROZENSET: lambda stack: stack.push_object(Inert("builtins.frozenset", items=stack.take_marked())),
        pickle.MEMOIZE: lambda stack: stack.memo.append(stack.values[-1]),
        pickle.BINPUT: _put(_BYTE),
        pickle.LONG_BINPUT: _put(_FOUR_BYTES),
        pickle.BINGET: _get(_BYTE),
        pickle.LONG_BINGET: _get(_FOUR_BYTES),
        pickle.GLOBAL: lambda stack: stack.values.append(stack.name(stack.take_line(), stack.take_line())),
        pickle.STACK_GLOBAL: _push_name,
        pickle.REDUCE: _call,
        pickle.NEWOBJ: _call,
        pickle.BUILD: _build,
        pickle.BINPERSID: lambda stack: stack.push_object(Inert(PERSISTENT, (stack.values.pop(),))),
    }.items()
}


_STOP = pickle.STOP[0]


def read_pickle(data: bytes, *, allows: Callable[[str], bool]) -> object:
    """Read the value that a pickle describes: plain Python values, `Name` for a class, `Inert` for an object.

    `allows` returns whether the pickle may mention a dotted name.

    >>> read_pickle(pickle.dumps({"step": (1, 2.5)}), allows=lambda name: False)
    {'step': (1, 2.5)}

    Raises RefusedPickle for a name that is not allowed, and for a pickle that is damaged or beyond a limit.
    """
    if len(data) > MAX_PICKLE_BYTES:
        raise RefusedPickle(f"its pickle is larger than {MAX_PICKLE_BYTES} bytes")
    stack = PickleStack(data, allows=allows)
    try:
        return _follow(stack)
    except (IndexError, KeyError, UnicodeDecodeError, ValueError, struct.error) as error:
        if isinstance(error, RefusedPickle):
            raise
        raise RefusedPickle(f"its pickle is damaged at byte {stack.at}") from None


def _follow(stack: PickleStack) -> object:
    """Follow the instructions of a pickle up to the one that ends it, and return the value that is then on top."""
    data, opcodes = stack.data, OPCODES
    for _ in range(MAX_INSTRUCTIONS):
        code = data[stack.at]
        stack.at += 1
        opcode = opcodes.get(code)
        if opcode is not None:
            opcode(stack)
        elif code == _STOP:
            return stack.values.pop()
        else:
            raise RefusedPickle(f"it uses pickle instruction 0x{code:02x}, which torch does not write")
    raise RefusedPickle(f"its pickle has more than {MAX_INSTRUCTIONS} instructions")
