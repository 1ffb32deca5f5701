"""Errors for mistakes of a user or of a file. Any other exception that reaches the user is a bug.

The code that finds a mistake states the rule only. `at(place)` puts the file and the layer in front of it:

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
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


BLANK = "\N{NO-BREAK SPACE}"
"""A blank at which text is not wrapped."""


def clean(text: str) -> str:
    """Return text from a file with "?" in place of characters that cannot be printed. A terminal would interpret
    some of them: escape sequences, and characters that reverse the text."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c == BLANK else "?" for c in text)


def clean_lines(text: str) -> str:
    """Return text of several lines, cleaned."""
    return "\n".join(map(clean, text.split("\n")))


def warn(text: str, stacklevel: int) -> None:
    """Issue a UserWarning whose text may hold names from a file; `stacklevel` is that of the caller."""
    warnings.warn(clean_lines(text), stacklevel=stacklevel + 1)


class AnyLayerError(Exception):
    """A mistake of a user or of a file.

    `message` states the rule and the remedy. `places` say where, from the outermost place (the file) inwards. As
    text, both are cleaned of characters that cannot be printed.
    """

    def __init__(self, message: str, *places: str) -> None:
        super().__init__(message)
        self.message = message
        self.places = list(places)

    def __str__(self) -> str:
        return clean_lines(": ".join([*self.places, self.message]))


class FileError(AnyLayerError):
    """A file is missing or damaged, or has another format than the expected one."""


class NetworkError(AnyLayerError):
    """The nodes of a network do not fit together: a bottom is unknown, a blob is produced twice."""


class LayerError(AnyLayerError):
    """A rule of one layer is broken: by a parameter, a weight or an input shape."""


class UnknownLayers(LayerError):
    """Some layer types have no definition. The message names all of them, and `types` lists them."""

    def __init__(self, message: str, *places: str, types: Iterable[str] = ()) -> None:
        super().__init__(message, *places)
        self.types = list(types)


class ShapeError(LayerError):
    """A layer does not take inputs of these shapes. For inputs of other shapes it may be possible."""


class DialectError(LayerError):
    """A layer means different things in different forks, and the file does not say which fork it was written
    for.

    `dialects` are the candidates where the file cannot be read without one.
    """

    def __init__(self, message: str, *places: str, dialects: Iterable[str] = ()) -> None:
        super().__init__(message, *places)
        self.dialects = list(dialects)


class TraceError(AnyLayerError):
    """A layer's forward does something that cannot be recorded."""


class InputError(AnyLayerError):
    """An argument does not fit: an input of a model, an option, a file name."""


class EngineError(AnyLayerError):
    """An engine is not installed, or it refuses the network."""


class ConversionError(AnyLayerError):
    """A written file does not compute what its source computes, or cannot be compared with it. It is deleted."""


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
    """Put `file` in front of the message, as `at` does, unless the message begins with the file already."""
    try:
        yield
    except AnyLayerError as error:
        if file and (not error.places or not error.places[0].startswith(file)):
            error.places.insert(0, file)
        raise


@contextmanager
def adding_advice(text: str) -> Iterator[None]:
    """Append a sentence to the message of a LayerError or an EngineError that is raised inside, once."""
    try:
        yield
    except (LayerError, EngineError) as error:
        rule, sentence = error.message.rstrip().removesuffix("."), f"{text[:1].upper()}{text[1:]}"
        error.message = rule if rule.endswith(sentence) else f"{rule}. {sentence}"
        raise


class Stopped(Exception):
    """An exception in place of one that would end the program, which a user's code raised (`sys.exit()`)."""


def call_contained(function: Callable[..., Any], *args: Any) -> Any:
    """Call a user's function. Raise Stopped for an exception that ends the program, not KeyboardInterrupt."""
    try:
        return function(*args)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise Stopped(": ".join(kind_and_text(error))).with_traceback(error.__traceback__) from error


def kind_and_text(error: BaseException) -> tuple[str, str]:
    """Return the name of an exception's class and its text. The text may be missing where `str(error)` raises."""
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
    """Turn an OSError into a FileError. It names the file in the OSError, or else `file`."""
    try:
        yield
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else file
        raise FileError(f"cannot be read: {_reason(error)}", name) from error


@contextmanager
def writing(file: str) -> Iterator[None]:
    """Turn an OSError into a FileError that names `file`, also where the OSError is about a temporary file."""
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot be written: {_reason(error)}", file) from error


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def need_name(path: Path, *, utf8: bool = False) -> None:
    """Raise FileError for a path that no file can have; with `utf8`, also for one that is not UTF-8."""
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


def need_shape(array: Any, shape: Sequence[int | str], what: str, about: str = "") -> None:
    """Raise LayerError unless an array has a shape. A name stands for any size, a last "..." for any further axes.

    what: the name of the array. about: what follows the shape in the message.
    """
    sizes = shape[:-1] if shape[-1:] == ("...",) else shape
    fits = len(array.shape) == len(sizes) or (len(array.shape) > len(sizes) < len(shape))
    fits = fits and all(isinstance(n, str) or n == size for n, size in zip(sizes, array.shape))
    listed = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    need(fits, f"{what} must be of shape ({listed}){about}, got {tuple(array.shape)}")


def given(value: T | None, rule: str, error: type[AnyLayerError] = LayerError) -> T:
    """Return `value`. Raise `error(rule)` where it is None. Type checkers know that the result is not None."""
    if value is None:
        raise error(rule)
    return value


_on_command_line = False


@contextmanager
def command_line() -> Iterator[None]:
    """Word remedies inside for the command line: options instead of Python arguments."""
    global _on_command_line
    before, _on_command_line = _on_command_line, True
    try:
        yield
    finally:
        _on_command_line = before


def wording(argument: str, option: str) -> str:
    """Return the remedy for the reader of a message: a Python argument, or an option of the command line.

    >>> wording("dialect='hed'", "--dialect hed")
    "dialect='hed'"
    """
    return option if _on_command_line else argument


def shortened(text: str, limit: int = 60) -> str:
    """Return a text for a message, cut to at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: "1 layer", "2 layers", "2 axes", "2 processes"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun.removesuffix('is') + 'es' if noun.endswith(('is', 'ss')) else noun + 's'}"


def some(names: Sequence[str], limit: int = 3) -> str:
    """Return the first names of a list, and the number of the others: "a, b, c and 2 more"."""
    others = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + others


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"` for the known name that is closest to `name`, or "" where none is close.

    Upper and lower case are not distinguished. A name that begins with the other is close if they share three
    letters.
    """
    by_lower = {k.lower(): k for k in known}
    lower = name.lower()
    alike = [k for k in by_lower if abs(len(k) - len(lower)) <= max(1, 0.4 * max(len(k), len(lower)))]
    close = difflib.get_close_matches(lower, alike, n=1, cutoff=0.61)
    if not close and len(lower) >= 3:
        close = sorted((k for k in by_lower if k.startswith(lower)), key=len)
    return f"; did you mean '{by_lower[close[0]]}'?" if close else ""


def need_one_of(
    name: str, names: Collection[str], rule: str, listing: str = "", error: type[AnyLayerError] = InputError
) -> None:
    """Raise `error` unless a name is one of the names. The message is the rule, a similar name if there is one,
    and after `listing` all of them: "there is no dialect 'bvcl'; did you mean 'bvlc'?; dialects: bvlc, ssd".
    """
    if name not in names:
        rest = f"; {listing}: {', '.join(names) or 'none'}" if listing else ""
        raise error(f"{rule}{nearest(str(name), names)}{rest}")
