"""The pickle instructions that torch's checkpoints use, each of which only moves data.

Source: CPython `Lib/pickletools.py`; protocols 2 (torch.save) and 4 or 5 (`.metadata`). The text instructions
of protocol 0, extension codes and out-of-band buffers are left out, and with them a pickle that uses one.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable

from sizing.checkpoint_files.pickle_stack import PickleStack
from sizing.checkpoint_files.pickle_values import (
    MAX_INTEGER_BYTES,
    PERSISTENT,
    Inert,
    Name,
    RefusedPickle,
    is_dictionary_key,
)

Opcode = Callable[[PickleStack], None]

EMPTY_DICTIONARIES = frozenset({"collections.OrderedDict", "collections.defaultdict"})
SIZE = "torch.Size"
GETATTR = frozenset({"builtins.getattr", "__builtin__.getattr"})
NEWEST_PROTOCOL = 5
"""The newest that Python has; torch writes 2."""

_BYTE, _TWO_BYTES = struct.Struct("<B"), struct.Struct("<H")
_FOUR_BYTES, _EIGHT_BYTES = struct.Struct("<I"), struct.Struct("<Q")
_SIGNED, _FLOAT = struct.Struct("<i"), struct.Struct(">d")


def _protocol(stack: PickleStack) -> None:
    if stack.take_number(_BYTE) > NEWEST_PROTOCOL:
        raise RefusedPickle(f"its pickle protocol is newer than {NEWEST_PROTOCOL}")


def _frame(stack: PickleStack) -> None:
    size = stack.take_number(_EIGHT_BYTES)
    if stack.at + size > len(stack.data):
        raise RefusedPickle("a frame reaches beyond its end")


def _value(value: object) -> Opcode:
    return lambda stack: stack.values.append(value)


def _number(layout: struct.Struct) -> Opcode:
    return lambda stack: stack.values.append(stack.take_number(layout))


def _integer(stack: PickleStack) -> None:
    size = stack.take_number(_BYTE)
    if size > MAX_INTEGER_BYTES:
        raise RefusedPickle(f"a whole number takes {size} bytes, more than {MAX_INTEGER_BYTES}")
    stack.values.append(int.from_bytes(stack.take(size), "little", signed=True))


def _text(size: struct.Struct, encoding: str = "utf-8") -> Opcode:
    return lambda stack: stack.values.append(stack.take(stack.take_number(size)).decode(encoding))


def _bytes(size: struct.Struct) -> Opcode:
    return lambda stack: stack.values.append(stack.take(stack.take_number(size)))


def _empty_list(stack: PickleStack) -> None:
    stack.push_object([])


def _empty_dictionary(stack: PickleStack) -> None:
    stack.push_object({})


def _empty_set(stack: PickleStack) -> None:
    stack.push_object(Inert("builtins.set"))


def _frozen_set(stack: PickleStack) -> None:
    marked = stack.take_marked()
    stack.push_object(Inert("builtins.frozenset", items=marked))


def _tuple(stack: PickleStack) -> None:
    marked = tuple(stack.take_marked())
    stack.push_object(marked)


def _tuple_of(size: int) -> Opcode:
    def opcode(stack: PickleStack) -> None:
        values = stack.values
        if len(values) < size:
            raise RefusedPickle("a tuple takes more values than there are")
        taken = tuple(values[-size:])
        del values[-size:]
        stack.push_object(taken)

    return opcode


def _append(stack: PickleStack) -> None:
    item = stack.values.pop()
    _extend(stack.values[-1], [item])


def _appends(stack: PickleStack) -> None:
    marked = stack.take_marked()
    _extend(stack.values[-1], marked)


def _extend(target: object, items: list[object]) -> None:
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, Inert):
        target.add(items)
    else:
        raise RefusedPickle("it appends to something that is not a list")


def _set_item(stack: PickleStack) -> None:
    value, key = stack.values.pop(), stack.values.pop()
    _update(stack.values[-1], [key, value])


def _set_items(stack: PickleStack) -> None:
    marked = stack.take_marked()
    _update(stack.values[-1], marked)


def _update(target: object, pairs: list[object]) -> None:
    if isinstance(target, Inert):
        target.add(pairs)
        return
    if not isinstance(target, dict) or len(pairs) % 2:
        raise RefusedPickle("it sets items of something that is not a dict")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if not is_dictionary_key(key):
            raise RefusedPickle("it has a dict key of a kind that no checkpoint has")
        target[key] = value


def _memoize(stack: PickleStack) -> None:
    stack.memo.append(stack.values[-1])


def _put(index: struct.Struct) -> Opcode:
    return lambda stack: stack.memoize(stack.take_number(index))


def _get(index: struct.Struct) -> Opcode:
    return lambda stack: stack.values.append(stack.memo[stack.take_number(index)])


def _global(stack: PickleStack) -> None:
    stack.values.append(stack.name(stack.take_line(), stack.take_line()))


def _stack_global(stack: PickleStack) -> None:
    name, module = stack.values.pop(), stack.values.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise RefusedPickle("it names a class by something that is not text")
    stack.values.append(stack.name(module, name))


def _call(stack: PickleStack) -> None:
    """What REDUCE and NEWOBJ would call, kept as data."""
    arguments, called = stack.values.pop(), stack.values.pop()
    if not isinstance(called, Name) or not isinstance(arguments, tuple):
        raise RefusedPickle("it calls something that is not a class or function")
    if called.text in GETATTR and list(map(type, arguments)) != [Name, str]:
        raise RefusedPickle("it asks for an attribute of something that is not an enumeration")
    if called.text == SIZE and len(arguments) == 1 and isinstance(arguments[0], tuple):
        stack.values.append(arguments[0])
    else:
        stack.push_object(_called(called.text, arguments))


def _called(name: str, arguments: tuple[object, ...]) -> object:
    if name in EMPTY_DICTIONARIES and not any(isinstance(item, (list, dict)) for item in arguments):
        return {}
    return Inert(name, arguments)


def _build(stack: PickleStack) -> None:
    state, target = stack.values.pop(), stack.values[-1]
    if isinstance(target, Inert):
        target.state = state
    elif not isinstance(target, dict):  # an OrderedDict's attributes hold versions of modules, never tensors
        raise RefusedPickle("it gives a state to something that has none")


def _persistent(stack: PickleStack) -> None:
    stack.push_object(Inert(PERSISTENT, (stack.values.pop(),)))


OPCODES: dict[int, Opcode] = {
    code[0]: opcode
    for code, opcode in {
        pickle.PROTO: _protocol,
        pickle.FRAME: _frame,
        pickle.MARK: PickleStack.mark,
        pickle.NONE: _value(None),
        pickle.NEWTRUE: _value(True),
        pickle.NEWFALSE: _value(False),
        pickle.BININT: _number(_SIGNED),
        pickle.BININT1: _number(_BYTE),
        pickle.BININT2: _number(_TWO_BYTES),
        pickle.LONG1: _integer,
        pickle.BINFLOAT: _number(_FLOAT),
        pickle.SHORT_BINUNICODE: _text(_BYTE),
        pickle.BINUNICODE: _text(_FOUR_BYTES),
        pickle.SHORT_BINSTRING: _text(_BYTE, "latin-1"),
        pickle.BINSTRING: _text(_FOUR_BYTES, "latin-1"),
        pickle.SHORT_BINBYTES: _bytes(_BYTE),
        pickle.BINBYTES: _bytes(_FOUR_BYTES),
        pickle.BINBYTES8: _bytes(_EIGHT_BYTES),
        pickle.BYTEARRAY8: _bytes(_EIGHT_BYTES),
        pickle.EMPTY_TUPLE: _value(()),
        pickle.TUPLE1: _tuple_of(1),
        pickle.TUPLE2: _tuple_of(2),
        pickle.TUPLE3: _tuple_of(3),
        pickle.TUPLE: _tuple,
        pickle.EMPTY_LIST: _empty_list,
        pickle.APPEND: _append,
        pickle.APPENDS: _appends,
        pickle.EMPTY_DICT: _empty_dictionary,
        pickle.SETITEM: _set_item,
        pickle.SETITEMS: _set_items,
        pickle.EMPTY_SET: _empty_set,
        pickle.ADDITEMS: _appends,
        pickle.FROZENSET: _frozen_set,
        pickle.MEMOIZE: _memoize,
        pickle.BINPUT: _put(_BYTE),
        pickle.LONG_BINPUT: _put(_FOUR_BYTES),
        pickle.BINGET: _get(_BYTE),
        pickle.LONG_BINGET: _get(_FOUR_BYTES),
        pickle.GLOBAL: _global,
        pickle.STACK_GLOBAL: _stack_global,
        pickle.REDUCE: _call,
        pickle.NEWOBJ: _call,
        pickle.BUILD: _build,
        pickle.BINPERSID: _persistent,
    }.items()
}
