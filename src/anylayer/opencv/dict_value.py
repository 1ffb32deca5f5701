"""cv2.dnn.DictValue: one integer, number or string, as a param of a layer."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np

from anylayer.errors import InputError, need
from anylayer.opencv.errors import converted

_LIMIT = 2**31
_INTEGER = re.compile(r"\s*([+-]?\d+)", re.ASCII)
_REAL = re.compile(r"\s*([+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan))", re.ASCII | re.IGNORECASE)
_HEX = re.compile(r"\s*([+-]?0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?)", re.ASCII | re.IGNORECASE)


class DictValue:
    """A value of the type that OpenCV's constructors DictValue(i), DictValue(p) and DictValue(s) give it.

    An int of 32 bits is an integer, another number is a real number. None is the integer 0. Raise `error` for
    values of other types.
    """

    @converted
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        arguments = {"i": args[0], "p": args[0], "s": args[0]} if len(args) == 1 and not kwargs else kwargs
        readers = {"i": _integer, "p": _real, "s": _string}
        candidates = [readers[name](value) for name, value in arguments.items() if name in readers]
        values = [value for value in candidates if value is not None]
        shown = ", ".join([*map(repr, args), *(f"{n}={v!r}" for n, v in kwargs.items())])
        rule = "Overload resolution failed: DictValue takes one int, float or str"
        need(bool(values) and len(args) + len(kwargs) == 1, f"{rule}, got ({shown})", InputError)
        self._value: int | float | str = values[0]

    def isInt(self) -> bool:
        """Return whether the value is an integer."""
        return isinstance(self._value, int)

    def isReal(self) -> bool:
        """Return whether the value is a number."""
        return not isinstance(self._value, str)

    def isString(self) -> bool:
        """Return whether the value is a string."""
        return isinstance(self._value, str)

    @converted
    def getIntValue(self, idx: int = -1) -> int:
        """Return the value as an integer: a string as C's atoi reads it.

        Raise `error` for a number that is not whole, and for one beyond 32 bits, of which versions of OpenCV make
        different numbers.
        """
        _check(idx)
        value = self._value
        if isinstance(value, str):
            value = int(_first(_INTEGER, value))
        need(value == value // 1, f"fracpart == 0.0: {value} is not an integer", InputError)
        need(-_LIMIT <= value < _LIMIT, f"{value} is not an integer of 32 bits; use getRealValue", InputError)
        return int(value)

    @converted
    def getRealValue(self, idx: int = -1) -> float:
        """Return the value as a float: a string as C's atof reads it."""
        _check(idx)
        value = self._value
        if isinstance(value, str):
            return float.fromhex(_first(_HEX, value)) if _HEX.match(value) else float(_first(_REAL, value))
        return float(value)

    @converted
    def getStringValue(self, idx: int = -1) -> str:
        """Return the string. Raise `error` for a number."""
        _check(idx)
        need(isinstance(self._value, str), f"isString(): the value is the number {self._value}", InputError)
        return str(self._value)


def _integer(value: Any) -> int | None:
    """Return a value as an integer of 32 bits, or None where it is not one."""
    if value is None or isinstance(value, (int, np.integer)):
        number = 0 if value is None else int(value)
        return number if -_LIMIT <= number < _LIMIT and not isinstance(value, bool) else None
    return None


def _real(value: Any) -> float | None:
    """Return a value as a float, or None where it is not a number."""
    if value is None or (isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, complex))):
        try:
            return 0.0 if value is None else float(value)
        except OverflowError:
            return None
    return None


def _string(value: Any) -> str | None:
    """Return a value as a string, or None where it is not one."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value or "") if value is None or isinstance(value, str) else None


def _check(idx: Any) -> None:
    """Raise TypeError for an index that is not an integer, and InputError for one other than 0 and -1."""
    if isinstance(idx, (bool, np.bool_)):
        raise TypeError("Argument 'idx' must be integer, not bool")
    need(operator.index(idx) in (-1, 0), f"a DictValue has one value, number 0; there is no {idx}", InputError)


def _first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.match(text)
    return match.group(1) if match else "0"
