"""The errors a user's or a file's mistake raises; anything else that escapes is a bug.

    AnyLayerError
    ├── FileError          a file is not what it was given as, or is broken
    ├── NetworkError       the nodes do not fit together: unknown bottom, a blob produced twice
    ├── LayerError         one layer's rule is broken: a parameter, a weight, an input shape
    │   ├── UnknownLayers  no definition for some layer types (all of them, at once)
    │   └── DialectError   a layer's fields mean different things in different forks
    ├── TraceError         a layer's forward does something that cannot be recorded
    ├── InputError         what was fed to a compiled model or to a command does not fit
    ├── EngineError        an engine is not installed, or refuses the network
    └── ConversionError    what was written does not compute what its source does

The code that finds a mistake states the rule only; `at(place)` puts the file and the layer in front on the
way up:

>>> try:
...     with at("deploy.prototxt"), at("layer 'shuffle1' (ShuffleChannel)"):
...         need(6 % 4 == 0, "group=4 does not divide 6 channels")
... except AnyLayerError as error:
...     print(error)
deploy.prototxt: layer 'shuffle1' (ShuffleChannel): group=4 does not divide 6 channels
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class AnyLayerError(Exception):
    """A mistake of a user or of a file. `places` lead from the outermost place to the rule."""

    def __init__(self, message: str, *places: str) -> None:
        super().__init__(message)
        self.message = message
        self.places = list(places)

    def __str__(self) -> str:
        return ": ".join([*self.places, self.message])


class FileError(AnyLayerError):
    """A file is not what it was given as, or is broken."""


class NetworkError(AnyLayerError):
    """The nodes of a network do not fit together."""


class LayerError(AnyLayerError):
    """One layer's rule is broken."""


class UnknownLayers(LayerError):
    """Some layer types have no definition. `types` lists them."""

    def __init__(self, message: str, *places: str, types: Iterable[str] = ()) -> None:
        super().__init__(message, *places)
        self.types = list(types)


class DialectError(LayerError):
    """A layer means different things in different forks, and the file does not tell which."""


class TraceError(AnyLayerError):
    """A layer's forward does something that cannot be recorded."""


class InputError(AnyLayerError):
    """What was fed to a compiled model or to a command does not fit."""


class EngineError(AnyLayerError):
    """An engine is not installed, or refuses the network."""


class ConversionError(AnyLayerError):
    """What was written does not compute what its source does."""


@contextmanager
def at(place: str) -> Iterator[None]:
    """Put `place` in front of the message of an AnyLayerError raised inside."""
    try:
        yield
    except AnyLayerError as error:
        if place and place not in error.places:
            error.places.insert(0, place)
        raise


@contextmanager
def within(file: str) -> Iterator[None]:
    """As `at`, for a file that the message may lead with already, followed by a line or a part of it."""
    try:
        yield
    except AnyLayerError as error:
        if file and (not error.places or not error.places[0].startswith(file)):
            error.places.insert(0, file)
        raise


class Stopped(Exception):
    """The end of the program that a user's code asked for (`sys.exit()` and its like), as an ordinary
    exception.
    """


def call_contained(function: Callable[..., Any], *args: Any) -> Any:
    """Call a user's function. Raise Stopped in place of an exception that would end the program; an interrupt from
    the keyboard passes."""
    try:
        return function(*args)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise Stopped(": ".join(kind_and_text(error))).with_traceback(error.__traceback__) from error


def kind_and_text(error: BaseException) -> tuple[str, str]:
    """Return the name of an exception's class and its text, also where making the text fails."""
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be shown)"
    if isinstance(error, Stopped):
        kind, _, text = text.partition(": ")
        return kind, text
    return type(error).__name__, text


@contextmanager
def reading(file: str) -> Iterator[None]:
    """Turn an OSError into a FileError that names the file it is about, or else `file`."""
    try:
        yield
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else file
        raise FileError(f"cannot be read: {_reason(error)}", name) from error


@contextmanager
def writing(file: str) -> Iterator[None]:
    """Turn an OSError into a FileError that names `file`, whatever temporary file it is about."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot be written: {_reason(error)}", file) from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def need_name(path: Path, *, utf8: bool = False) -> None:
    """Refuse a path that no file can have; with `utf8` also one that is not UTF-8, as formats want their names."""
    text = str(path)
    shown = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    need("\0" not in text, f"the name '{shown}' holds a NUL character", FileError)
    try:
        os.fsencode(text)
        if utf8:
            text.encode()
    except UnicodeEncodeError:
        raise FileError(f"the name '{shown}' is not UTF-8") from None


def need(condition: object, rule: str, error: type[AnyLayerError] = LayerError) -> None:
    """Raise `error(rule)` unless `condition` is true."""
    if not condition:
        raise error(rule)


_command_options: frozenset[str] | None = None


@contextmanager
def command_line(options: Iterable[str] = ()) -> Iterator[None]:
    """Word remedies for a command with these options inside: a caller in Python is told of arguments instead."""
    global _command_options
    before, _command_options = _command_options, frozenset(options)
    try:
        yield
    finally:
        _command_options = before


def offers(option: str) -> bool:
    """Whether a remedy can be taken where the message is read: in Python, or by a command that has the option."""
    return _command_options is None or option in _command_options


def wording(argument: str, option: str) -> str:
    """Return the remedy that exists where the message is read: a Python argument, or a command's option.

    >>> wording("dialect='hed'", "--dialect hed")
    "dialect='hed'"
    """
    return argument if _command_options is None else option


def shape_wording(name: str) -> str:
    """Return how the shape of input `name` is given: `shapes={'data': (1, 3, 224, 224)}`, or --shape."""
    return wording(f"shapes={{{name!r}: (1, 3, 224, 224)}}", f"--shape {name}=1,3,224,224")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the known name that is closest to `name`, or "" where none is close.

    Upper and lower case do not count. A name that begins with the other is close if they share three letters.
    """
    by_lower = {k.lower(): k for k in known}
    lower = name.lower()
    alike = [k for k in by_lower if abs(len(k) - len(lower)) <= max(1, 0.4 * max(len(k), len(lower)))]
    found = difflib.get_close_matches(lower, alike, n=1, cutoff=0.6)
    if not found and len(lower) >= 3:
        found = sorted((k for k in by_lower if k.startswith(lower)), key=len)
    return f"; did you mean '{by_lower[found[0]]}'?" if found else ""
