# SPDX-License-Identifier: Apache-2.0
"""Types of what is in a state beside tensors: which can be told by name, and made again without pickle.

A subclass of a built-in type is told by the name of its class. It is made again without a call of the class's own code:
by the built-in type's constructor, and then its attributes.
"""

import collections
import enum
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

from ..errors import FormatError

_Make = Callable[[Any, Any], Any]
_update: Callable[[Any, Any], None] = cast(Any, dict).update


def _fill(base: Any, add: str) -> _Make:
    """Makes an empty one of a class, and puts the values in."""

    def make(cls: Any, value: Any) -> Any:
        found = base.__new__(cls)
        getattr(base, add)(found, value)
        return found

    return make


def _whole(base: Any) -> _Make:
    return lambda cls, value: base.__new__(cls, value)


def _counter(cls: Any, value: Any) -> Any:
    found: Any = collections.Counter.__new__(cls)
    _update(found, value)  # Counter.update would add
    return found


def _defaultdict(cls: Any, value: Any) -> Any:
    found: Any = collections.defaultdict.__new__(cls)
    found.default_factory = value.default_factory
    _update(found, value)
    return found


def _deque(cls: Any, value: Any) -> Any:
    base: Any = collections.deque
    found = base.__new__(cls)
    base.__init__(found, value, value.maxlen)
    return found


# By the name that a state has for them; a subclass comes before its base.
BASES: dict[str, tuple[type, _Make]] = {
    "counter": (collections.Counter, _counter),
    "defaultdict": (collections.defaultdict, _defaultdict),
    "ordered": (collections.OrderedDict, _fill(collections.OrderedDict, "update")),
    "dict": (dict, _fill(dict, "update")),
    "list": (list, _fill(list, "extend")),
    "tuple": (tuple, _whole(tuple)),
    "set": (set, _fill(set, "update")),
    "frozenset": (frozenset, _whole(frozenset)),
    "deque": (collections.deque, _deque),
    "bytearray": (bytearray, _fill(bytearray, "extend")),
    "bytes": (bytes, _whole(bytes)),
    "complex": (complex, _whole(complex)),
    "float": (float, _whole(float)),
    "int": (int, _whole(int)),
    "str": (str, _whole(str)),
}
# What a defaultdict may make of a key that it lacks.
_FACTORIES: dict[str, Any] = {
    one.__name__: one
    for one in (bool, int, float, complex, str, bytes, list, dict, set, tuple, collections.Counter, collections.deque)
} | {"OrderedDict": collections.OrderedDict, "None": None}


def base_of(value: Any) -> str:
    """The name of the built-in type; "": it is none of these."""
    return next((name for name, (base, _) in BASES.items() if isinstance(value, base)), "")


def is_plain(value: Any, base: str) -> bool:
    """True if nothing but the built-in type and its contents makes up the value."""
    return type(value) is BASES[base][0] and not getattr(value, "__dict__", None)


def factory_name(value: "collections.defaultdict[Any, Any]", where: str) -> str:
    """Raises FormatError."""
    for name, factory in _FACTORIES.items():
        if value.default_factory is factory:
            return name
    known = ", ".join(name for name in _FACTORIES if name != "None")
    raise FormatError(
        f"{where}: a defaultdict with the default_factory {value.default_factory!r} can't be saved without pickle; "
        f"give a plain dict, or one of the factories {known}"
    )


def with_factory(name: str, pairs: Mapping[Any, Any]) -> "collections.defaultdict[Any, Any]":
    return collections.defaultdict(_FACTORIES[name], pairs)


def class_of(value: Any, where: str) -> list[str]:
    """Module and name by which all processes of the script find the class. Raises FormatError."""
    cls = cast(Any, type(value))
    told = [cls.__module__, cls.__qualname__]
    if _find(*told) is not cls:
        raise FormatError(
            f"{where}: a {cls.__qualname__} can't be saved without pickle, because no module has its class by name; "
            "give plain dicts, lists, numbers and tensors"
        )
    return told


def again(base: str, told: list[str], value: Any, attributes: Mapping[str, Any]) -> Any:
    """An object of the class, of the built-in type's value. Raises FormatError."""
    cls = _find(*told)
    if not isinstance(cls, type) or not issubclass(cls, BASES[base][0]) or issubclass(cls, enum.Enum):
        raise FormatError(f"the state has a {'.'.join(told)}, which is no {base} in this process")
    try:
        found = BASES[base][1](cls, value)
        if attributes:
            found.__dict__.update(attributes)
    except (TypeError, AttributeError) as error:
        raise FormatError(f"a {'.'.join(told)} can't be saved without pickle: {error}") from None
    return found


def member(told: list[str], name: str) -> Any:
    """Of an Enum. Raises FormatError."""
    cls = _find(*told)
    if not isinstance(cls, type) or not issubclass(cls, enum.Enum) or name not in cls.__members__:
        raise FormatError(f"the state has {'.'.join(told)}.{name}, which this process does not know")
    return cast(Any, cls.__members__[name])


def _find(module: str, name: str) -> Any:
    """Only what is imported already: a state imports nothing."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
