"""Turns what a task gives back into JSON that JavaScript reads without loss, or says what cannot be turned and where."""
import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import math
import pathlib
import uuid

MAX_DEPTH = 150
# Beyond this a JavaScript number loses digits.
SAFE = 2**53 - 1


class NotJson(Exception):
    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason
        self.path = ""


def to_json(value):
    return json.dumps(plain(value, 0), separators=(",", ":"), allow_nan=False)


def plain(value, depth):
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        return value if -SAFE <= value <= SAFE else str(value)
    if kind is float:
        return number(value)
    if depth >= MAX_DEPTH:
        raise NotJson("is nested deeper than %d levels, or contains itself" % MAX_DEPTH)
    if kind is dict:
        return mapping(value.items(), depth)
    if kind is list or kind is tuple:
        return sequence(value, depth)
    return converted(value, depth)


def number(value):
    if value != value:
        return None  # What is not a number is missing, as the tables that it comes from mean it.
    if math.isinf(value):
        raise NotJson("is infinite, which JSON has no word for")
    return value


def sequence(values, depth):
    out = []
    for index, item in enumerate(values):
        try:
            out.append(plain(item, depth + 1))
        except NotJson as error:
            error.path = "/%d%s" % (index, error.path)
            raise
    return out


def mapping(items, depth):
    out = {}
    for key, item in items:
        name = key if type(key) is str else key_text(key)
        if name in out:
            raise NotJson("has two keys that are both %r in JSON" % name)
        try:
            out[name] = plain(item, depth + 1)
        except NotJson as error:
            error.path = "/%s%s" % (name.replace("~", "~0").replace("/", "~1"), error.path)
            raise
    return out


def key_text(key):
    if isinstance(key, enum.Enum):
        key = key.value
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, bool):
        return json.dumps(key)
    if isinstance(key, (int, float, decimal.Decimal, uuid.UUID)):
        return str(key)
    if isinstance(key, (datetime.date, datetime.datetime)):
        return key.isoformat()
    if from_package(key, "numpy") and hasattr(key, "item"):
        return key_text(key.item())
    raise NotJson("has a key of type %s; keys must be text" % type(key).__name__)


def converted(value, depth):
    if isinstance(value, enum.Enum):
        return plain(value.value, depth)
    if from_package(value, "numpy", "pandas"):
        return from_table(value, depth)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return bool(value)
    if isinstance(value, int):
        return plain(int(value), depth)
    if isinstance(value, float):
        return number(float(value))
    if isinstance(value, decimal.Decimal):
        if value.is_nan():
            return None
        if value.is_infinite():
            return number(float(value))
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, (uuid.UUID, pathlib.PurePath, fractions.Fraction)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise NotJson("is bytes; decode them, or write them as base64")
    if isinstance(value, (set, frozenset)):
        # Sorted, because the order of a set differs from process to process.
        return sorted(sequence(value, depth), key=lambda item: json.dumps(item, sort_keys=True))
    if hasattr(value, "_asdict") and isinstance(value, tuple):
        return mapping(value._asdict().items(), depth)
    if isinstance(value, collections.abc.Mapping):
        return mapping(value.items(), depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return mapping(((field.name, getattr(value, field.name)) for field in fields), depth)
    if isinstance(
        value, (list, tuple, range, collections.deque, collections.abc.MappingView, collections.UserList)
    ):
        return sequence(value, depth)
    if callable(getattr(value, "model_dump", None)) and not isinstance(value, type):
        return plain(value.model_dump(), depth + 1)
    raise NotJson("is of type %s, which JSON has no word for" % type(value).__name__)


def from_package(value, *names):
    return type(value).__module__.split(".")[0] in names


def from_table(value, depth):
    """Values of numpy and pandas, told by their shape so that neither needs to be imported."""
    name = type(value).__name__
    if name in ("NaTType", "NAType"):
        return None
    if name == "DataFrame":
        return plain(value.to_dict("records"), depth)
    if hasattr(value, "tolist"):
        return plain(value.tolist(), depth)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "item"):
        return plain(value.item(), depth)
    raise NotJson("is of type %s, which JSON has no word for" % name)
