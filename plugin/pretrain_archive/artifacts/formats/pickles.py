"""A pickle as a tree of names and values: read opcode by opcode, never loaded.

Nothing is imported, looked up or called. What a real unpickler would call becomes a :class:`Made` that says what it
would have called and with what; what it would import becomes a :class:`Name`. A name that ``allowed`` does not know
ends the reading: a checkpoint that names ``posix.system`` is refused and not looked at further.

Opcodes and their arguments are decoded by the standard library's ``pickletools.genops``, which decodes only
(https://docs.python.org/3/library/pickletools.html). Bytes, opcodes and open marks are bounded; values are shared and
not copied, so that a pickle cannot grow beyond its own length; whoever walks the tree must bound its own loops.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pretrain_archive.domain.errors import CheckpointError

MAX_BYTES = 128 * 1024 * 1024
MAX_OPCODES = 8_000_000
"""About 80,000 pieces of tensors; an empty list is one opcode of one byte and takes 56 bytes of memory."""

MAX_MARKS = 1000
"""A pickler nests marks as deep as the value is nested; metadata is a few levels deep."""

Allowed = Callable[[str, str], bool]


class TooLargeError(CheckpointError):
    """Larger than is read here: nothing is known of it, which is no fault of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """What an unpickler would import."""

    module: str
    name: str


@dataclass(slots=True, eq=False)
class Made:
    """What an unpickler would make: of what, with what, and the state that it would set afterwards."""

    what: Any
    arguments: Any = ()
    state: Any = None


@dataclass(slots=True, eq=False)
class Pairs:
    """A dict as the pairs that were set, in their order; keys are not compared here."""

    items: list[tuple[Any, Any]] = field(default_factory=list)


class _BrokenError(ValueError):
    """No pickler writes this."""


CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
VALUES = frozenset(
    [
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
        "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES",
        "BINBYTES8", "BYTEARRAY8",
    ]
)  # fmt: skip
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
READS = {"GET", "BINGET", "LONG_BINGET"}
WRITES = {"PUT", "BINPUT", "LONG_BINPUT"}
OTHERS = (
    "POP", "POP_MARK", "DUP", "MARK", "MEMOIZE", "EMPTY_LIST", "EMPTY_SET", "EMPTY_DICT", "EMPTY_TUPLE", "LIST",
    "FROZENSET", "TUPLE", "DICT", "APPEND", "APPENDS", "ADDITEMS", "SETITEM", "SETITEMS", "GLOBAL", "STACK_GLOBAL",
    "REDUCE", "NEWOBJ", "NEWOBJ_EX", "BUILD",
)  # fmt: skip
IGNORED = {"PROTO", "FRAME"}


def walk(raw: bytes, *, where: str, allowed: Allowed) -> Any:
    """The value that ``raw`` describes; :class:`CheckpointError` names ``where`` and why it is none.

    Lists are lists, tuples tuples, sets lists; a dict is :class:`Pairs`.
    """
    if len(raw) > MAX_BYTES:
        raise TooLargeError(f"{where}: {len(raw)} bytes, above the limit of {MAX_BYTES} for a pickle.")
    machine = _Machine(where, allowed)
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(raw)):
            if count >= MAX_OPCODES:
                raise TooLargeError(f"{where}: more than {MAX_OPCODES} opcodes.")
            if opcode.name == "STOP":
                return machine.result()
            machine.step(opcode.name, argument)
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        AssertionError,
    ) as error:
        raise CheckpointError(f"{where}: not a whole pickle: {str(error)[:200]}.") from error
    except (struct.error, MemoryError, RecursionError) as error:
        raise CheckpointError(f"{where}: not a whole pickle: {type(error).__name__}.") from error
    raise CheckpointError(f"{where}: not a whole pickle: it has no end.")


class _Machine:
    """The unpickler's stack and memo, with names and values in place of objects."""

    def __init__(self, where: str, allowed: Allowed) -> None:
        self._where = where
        self._allowed = allowed
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._acts = self._table()

    def result(self) -> Any:
        if len(self._stack) != 1 or self._marks:
            raise _BrokenError("its end leaves a stack")
        return self._pop()

    def step(self, name: str, argument: Any) -> None:
        act = self._acts.get(name)
        if act is None:
            if name in IGNORED:
                return
            raise CheckpointError(
                f"{self._where}: opcode {name}, which metadata of a checkpoint does not need."
            )
        act(argument)

    def _table(self) -> dict[str, Callable[[Any], None]]:
        """What each opcode does, looked up once: there are millions of them."""
        return {
            **dict.fromkeys(VALUES, self._stack.append),
            **{name: partial(self._constant, value) for name, value in CONSTANTS.items()},
            **{name: partial(self._short_tuple, size) for name, size in TUPLES.items()},
            **dict.fromkeys(READS, self._read),
            **dict.fromkeys(WRITES, self._write),
            **{name: getattr(self, f"_{name.lower()}") for name in OTHERS},
        }

    def _constant(self, value: Any, _: Any) -> None:
        self._stack.append(value)

    def _short_tuple(self, size: int, _: Any) -> None:
        if len(self._stack) - size < (self._marks[-1] if self._marks else 0):
            raise _BrokenError("its stack runs empty")
        items = tuple(self._stack[-size:])
        del self._stack[-size:]
        self._stack.append(items)

    def _read(self, argument: Any) -> None:
        self._stack.append(self._memo[int(argument)])

    def _write(self, argument: Any) -> None:
        self._memo[int(argument)] = self._top()

    def _top(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise _BrokenError("its stack runs empty")
        return self._stack[-1]

    def _pop(self, _: Any = None) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise _BrokenError("its stack runs empty")
        return self._stack.pop()

    def _marked(self) -> list[Any]:
        if not self._marks:
            raise _BrokenError("a mark is missing")
        at = self._marks.pop()
        items = self._stack[at:]
        del self._stack[at:]
        return items

    def _memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._top()

    def _mark(self, _: Any) -> None:
        if len(self._marks) >= MAX_MARKS:
            raise _BrokenError("nested too deeply")
        self._marks.append(len(self._stack))

    def _pop_mark(self, _: Any) -> None:
        self._marked()

    def _dup(self, _: Any) -> None:
        self._stack.append(self._top())

    def _empty_list(self, _: Any) -> None:
        self._stack.append([])

    def _empty_set(self, _: Any) -> None:
        self._stack.append([])

    def _empty_dict(self, _: Any) -> None:
        self._stack.append(Pairs())

    def _empty_tuple(self, _: Any) -> None:
        self._stack.append(())

    def _list(self, _: Any) -> None:
        self._stack.append(self._marked())

    def _frozenset(self, _: Any) -> None:
        self._stack.append(self._marked())

    def _tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._marked()))

    def _dict(self, _: Any) -> None:
        self._stack.append(Pairs(_paired(self._marked())))

    def _append(self, _: Any) -> None:
        item = self._pop()
        self._extend([item])

    def _appends(self, _: Any) -> None:
        self._extend(self._marked())

    def _additems(self, _: Any) -> None:
        self._extend(self._marked())

    def _extend(self, items: list[Any]) -> None:
        target = self._top()
        if not isinstance(target, list):
            raise _BrokenError("appends to what is no list")
        target.extend(items)

    def _setitem(self, _: Any) -> None:
        value, key = self._pop(), self._pop()
        self._set([(key, value)])

    def _setitems(self, _: Any) -> None:
        self._set(_paired(self._marked()))

    def _set(self, pairs: list[tuple[Any, Any]]) -> None:
        target = self._top()
        if isinstance(target, Made):  # an OrderedDict and its like are made first and filled then
            if not isinstance(target.state, Pairs):
                target.state = Pairs()
            target = target.state
        if not isinstance(target, Pairs):
            raise _BrokenError("sets an item of what is no dict")
        target.items.extend(pairs)

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._named(module, name)

    def _stack_global(self, _: Any) -> None:
        name, module = self._pop(), self._pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise _BrokenError("a name that is no text")
        self._named(module, name)

    def _named(self, module: str, name: str) -> None:
        if not self._allowed(module, name):
            shown = f"{module}.{name}"[:100]
            raise CheckpointError(
                f"{self._where}: a pickle that names {shown!r}, which the format does not need: nothing of it was run."
            )
        self._stack.append(Name(module, name))

    def _reduce(self, _: Any) -> None:
        arguments, what = self._pop(), self._pop()
        self._stack.append(Made(what, arguments))

    def _newobj(self, _: Any) -> None:
        self._reduce(_)

    def _newobj_ex(self, _: Any) -> None:
        keywords, arguments, what = self._pop(), self._pop(), self._pop()
        self._stack.append(Made(what, (arguments, keywords)))

    def _build(self, _: Any) -> None:
        state, target = self._pop(), self._top()
        if not isinstance(target, Made):
            raise _BrokenError("sets the state of what was not made")
        target.state = state


def _paired(items: list[Any]) -> list[tuple[Any, Any]]:
    if len(items) % 2:
        raise _BrokenError("a key without its value")
    return list(zip(items[::2], items[1::2], strict=True))
