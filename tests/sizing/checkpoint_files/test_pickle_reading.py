"""Pickles are followed, never run: plain values come back, everything else is kept as data or refused."""

import collections
import contextlib
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.checkpoint_files import pickle_reading
from sizing.checkpoint_files.allowed_names import allowed_in_dcp, allowed_in_torch_save
from sizing.checkpoint_files.pickle_reading import MAX_OPEN_MARKS, Inert, RefusedPickle, read_pickle

keys = st.text(max_size=8) | st.integers(-(2**31), 2**31 - 1)
scalars = st.none() | st.booleans() | st.integers(-(2**127), 2**127) | st.floats(allow_nan=False) | st.text()
plain = st.recursive(
    scalars | st.binary(),
    lambda below: (
        st.lists(below, max_size=5) | st.dictionaries(keys, below, max_size=5) | st.lists(below, max_size=5).map(tuple)
    ),
)


def nothing(_name: str) -> bool:
    return False


def refusal_of(data: bytes) -> str:
    with pytest.raises(RefusedPickle) as refused:
        read_pickle(data, allows=nothing)
    return str(refused.value)


@given(value=plain, protocol=st.sampled_from([4, 5]))
def test_plain_values_come_back(value: object, protocol: int) -> None:
    assert read_pickle(pickle.dumps(value, protocol), allows=nothing) == value


@given(value=st.recursive(scalars, lambda below: st.lists(below) | st.dictionaries(keys, below)))
def test_plain_values_of_protocol_2_come_back(value: object) -> None:
    assert read_pickle(pickle.dumps(value, 2), allows=nothing) == value


@given(data=st.binary(max_size=60))
def test_random_bytes_end_in_a_value_or_a_refusal(data: bytes) -> None:
    with contextlib.suppress(RefusedPickle):
        read_pickle(b"\x80\x02" + data, allows=nothing)


@given(value=plain, cut=st.integers(1, 50))
def test_a_pickle_cut_short_is_refused(value: object, cut: int) -> None:
    data = pickle.dumps(value, 4)
    refusal_of(data[: max(0, len(data) - cut)])


def test_an_object_is_kept_as_what_it_was_given() -> None:
    data = pickle.dumps(collections.Counter("aab"))
    found = read_pickle(data, allows=lambda name: name == "collections.Counter")
    assert isinstance(found, Inert)
    assert found.name == "collections.Counter"
    assert found.arguments == ({"a": 2, "b": 1},)


class Calls:
    """Pickles as a call of what it is given."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("allows", [allowed_in_dcp, allowed_in_torch_save])
@pytest.mark.parametrize(
    "name",
    [
        "os system",
        "posix system",
        "subprocess Popen",
        "builtins eval",
        "builtins exec",
        "builtins __import__",
        "__builtin__ eval",
        "builtins open",
        "builtins type",
        "builtins setattr",
        "importlib import_module",
        "runpy run_path",
        "operator attrgetter",
        "functools partial",
        "torch load",
        "torch.hub load",
        "torch.serialization load",
        "torch._utils _import_dotted_name",
        "torch.jit load",
        "numpy load",
        "pickle loads",
        "webbrowser open",
    ],
)
def test_a_name_that_no_checkpoint_needs_is_refused(allows: Any, name: str) -> None:
    module, function = name.split()
    data = b"\x80\x02c" + f"{module}\n{function}\n".encode() + b"X\x04\x00\x00\x00true\x85R."
    with pytest.raises(RefusedPickle, match="which no plain checkpoint needs"):
        read_pickle(data, allows=allows)


def test_an_attribute_is_looked_up_on_enumerations_only() -> None:
    def looked_up(owner: bytes) -> object:
        data = b"\x80\x02cbuiltins\ngetattr\n" + owner + b"X\x01\x00\x00\x00a\x86R."
        return read_pickle(data, allows=allowed_in_dcp)

    assert isinstance(looked_up(b"ctorch.distributed.checkpoint.metadata\n_MEM_FORMAT_ENCODING\n"), Inert)
    with pytest.raises(RefusedPickle, match="enumeration"):
        looked_up(b"]")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "damaged at byte 0"),
        (b".", "damaged"),
        (b"\x80\x06N.", "protocol is newer"),
        (b"\x80\x02(I1\nI2\nt.", "instruction 0x49"),
        (b"\x80\x02\x82\x01.", "instruction 0x82"),
        (b"\x80\x02(ios\nsystem\n.", "instruction 0x69"),
        (b"\x80\x02Q.", "damaged"),
        (b"\x80\x02h\x05.", "damaged"),
        (b"\x80\x02Na.", "damaged"),
        (b"\x80\x02NNa.", "appends to something"),
        (b"\x80\x02NNNs.", "sets items of something"),
        (b"\x80\x02}(Nu.", "sets items of something"),
        (b"\x80\x02N\x85\x87.", "more values than there are"),
        (b"\x80\x02NNR.", "calls something"),
        (b"\x80\x02N)\x81.", "calls something"),
        (b"\x80\x02]}b.", "gives a state"),
        (b"\x80\x04]]\x93.", "not text"),
        (b"\x80\x04\x95" + struct.pack("<Q", 2**63) + b"N.", "frame reaches beyond"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**63) + b"N.", "middle of a value"),
        (b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"N.", "middle of a value"),
        (b"\x80\x02X\xff\xff\xff\xffN.", "middle of a value"),
        (b"\x80\x02X\x01\x00\x00\x00\xff.", "damaged"),
        (b"\x80\x02\x8a\xff" + b"\x01" * 255 + b".", "255 bytes, more than 64"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f.", "instruction 0x8b"),
        (b"\x80\x02" + b"(" * (MAX_OPEN_MARKS + 1) + b"N.", "nests deeper than"),
    ],
)
def test_what_torch_does_not_write_is_refused(data: bytes, said: str) -> None:
    assert said in refusal_of(data)


def test_a_memo_index_out_of_turn_is_refused() -> None:
    assert "out of turn" in refusal_of(b"\x80\x02Nr\xff\xff\xff\xff.")


def test_deep_nesting_is_read_or_refused_without_recursion() -> None:
    depth = 300_000
    found = read_pickle(b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b".", allows=nothing)
    assert isinstance(found, list)
    assert "dict key" in refusal_of(b"\x80\x02})" + b"\x85" * depth + b"Ns.")


def test_a_key_that_takes_for_ever_to_hash_is_refused_at_once() -> None:
    doubled = b"q\x00h\x00\x86" * 100
    assert "dict key" in refusal_of(b"\x80\x02})" + doubled + b"Ns.")


def test_a_pickle_beyond_the_limits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_reading, "MAX_INSTRUCTIONS", 1_000)
    assert "more than 1000 instructions" in refusal_of(b"\x80\x02" + b"N" * 1_000 + b".")
    monkeypatch.setattr(pickle_reading, "MAX_PICKLE_BYTES", 100)
    assert "larger than 100 bytes" in refusal_of(b"\x80\x02" + b"N" * 100 + b".")


@pytest.mark.parametrize("made", [b"]", b"}", b")\x85", b"\x8f", b"(t", b"(\x91"])
def test_more_objects_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch, made: bytes) -> None:
    monkeypatch.setattr(pickle_reading, "MAX_OBJECTS", 100)
    assert "more than 100 objects" in refusal_of(b"\x80\x04" + made * 101 + b".")


def test_reading_leaves_no_trace_on_the_next() -> None:
    """A state that is given to a class would change that class in a real unpickler."""
    data = b"\x80\x02ccollections\nOrderedDict\n}X\x01\x00\x00\x00aNsb."
    with pytest.raises(RefusedPickle, match="gives a state"):
        read_pickle(data, allows=allowed_in_torch_save)
