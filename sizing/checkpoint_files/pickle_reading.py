"""A pickle read as data: which objects it describes, without building one of them.

A pickle is a program; `pickle.load` runs it. This module follows the program on a stack of its own and keeps
a call as its name and arguments. Restricting `pickle.Unpickler` by `find_class` would stop the calls but not
the rest: it hashes tuples without a bound on their depth (a 3 MB file crashes the process, 60 nested pairs
never end), it makes room for any memo index that the file claims, and it lets a file set attributes of the
classes that are allowed.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable

from sizing.checkpoint_files.pickle_opcodes import OPCODES
from sizing.checkpoint_files.pickle_stack import PickleStack
from sizing.checkpoint_files.pickle_values import MAX_INSTRUCTIONS, MAX_PICKLE_BYTES, RefusedPickle

_STOP = pickle.STOP[0]


def read_pickle(data: bytes, *, allows: Callable[[str], bool]) -> object:
    """What a pickle describes: plain Python values, `Name` for each class and `Inert` for each object.

    `allows` says of a dotted name whether the pickle may mention it.

    >>> read_pickle(pickle.dumps({"step": (1, 2.5)}), allows=lambda name: False)
    {'step': (1, 2.5)}

    Raises RefusedPickle for a name that is not allowed, and for a pickle that is damaged or beyond a limit.
    """
    if len(data) > MAX_PICKLE_BYTES:
        raise RefusedPickle(f"its pickle is larger than {MAX_PICKLE_BYTES} bytes")
    stack = PickleStack(data, allows=allows)
    try:
        return _followed(stack)
    except (IndexError, KeyError, UnicodeDecodeError, ValueError, struct.error) as error:
        if isinstance(error, RefusedPickle):
            raise
        raise RefusedPickle(f"its pickle is damaged at byte {stack.at}") from None


def _followed(stack: PickleStack) -> object:
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
