"""C++ text from a network's file: identifiers, literals and comments that cannot become code, checks of shapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from string import ascii_letters, digits
from typing import Any

from anylayer.errors import LayerError, need
from anylayer.folders import fill, template
from anylayer.generators._names import Names, comment, source_line
from anylayer.layer import Bound
from anylayer.loops import CppFunction, Opened, table_text
from anylayer.loops.lowering import size_of
from anylayer.network import Flag

_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq linux unix
main std cv assert errno NULL INDEPENDENT
"""
KEYWORDS = frozenset(_WORDS.split())
"""Words that no generated identifier may be: C++'s keywords, macros of compilers, and names that templates use."""


_PLAIN = frozenset(f"{ascii_letters}{digits} _.,:;=()/-+[]")
"""The characters that need no escape in a string literal."""
_MAX_CONSTANT_SIZE = 1 << 20  # elements of a constant in source code


def tables_text(name: str, code: CppFunction) -> str:
    """Return the constant arrays of a function as C++ definitions, whose names begin with `name`."""
    for _, array in code.tables:
        need(array.size <= _MAX_CONSTANT_SIZE, f"a constant of {array.size} elements is too large for source code")
    return "".join(table_text(f"{name}_{table}", array.dtype, array) for table, array in code.tables)


def cmake(name: str, standard: int, target: str) -> str:
    """Return a CMakeLists.txt with a library `name`, which the lines of `target` define.

    standard: the C++ standard, such as 17.
    """
    text = template(__file__, "CMakeLists.txt")
    return fill(text, name=name, standard=str(standard), target=target.strip("\n"))


def names(reserved: Iterable[str] = ()) -> Names:
    """Return an empty set of identifiers for a C++ file, which may not be one of the reserved ones."""
    return Names(KEYWORDS.union(reserved))


def string(text: str) -> str:
    """Return a text as a C++ string literal in ASCII. Other characters are escaped by their bytes."""
    data = text.encode("utf-8", "surrogatepass")
    plain = "".join(chr(b) if chr(b) in _PLAIN else f"\\{b:03o}" for b in data)
    return f'"{plain}"'


def line_comment(text: str) -> str:
    """Return a text for a `//` comment. It cannot continue on the next line, not even by a trigraph."""
    return re.sub(r"\?(?=\?)", "? ", comment(text))


def describer(bound: Bound) -> Callable[[str], str]:
    """Return a function that describes a place in a layer's code, with the line of source there."""
    return lambda place: line_comment(source_line(place, bound))


def supported(source: Opened, params: str) -> str:
    """Return a description of the params, inputs and conditions for which the code of a traced layer is written.

    params: a description of the params.
    """
    shapes = ", ".join(f"({', '.join(str(size_of(d)) for d in v.shape)})" for v in source.graph.inputs)
    return f"{params or 'no params'}; inputs {shapes}" + "".join(f", {guard}" for guard in source.guards)


def open_sizes(source: Opened, code: CppFunction, axis_size: str) -> list[str]:
    """Return statements that define the open sizes. axis_size: C++ text of a size, with {i} and {axis}."""
    lines = []
    for symbol, (i, axis, factor) in source.sizes.items():
        divided = f" / {factor}" if factor != 1 else ""
        lines.append(f"const int64_t {code.sizes[symbol]} = {axis_size.format(i=i, axis=axis)}{divided};")
    return lines


def checks_of_shapes(source: Opened, code: CppFunction) -> tuple[list[str], list[str]]:
    """Return C++ conditions on `inputs`, a vector of shapes. Code must refuse shapes for which one is true. The
    first list tests the ranks; the second reads the variables of open_sizes.
    """
    ranks = [f"inputs[{i}].size() != {len(a.shape)}" for i, a in enumerate(code.inputs)]
    defined_at = {code.sizes[symbol]: place for symbol, place in source.sizes.items()}
    places = [(i, axis, code.size(e)) for i, a in enumerate(code.inputs) for axis, e in enumerate(a.shape)]
    tests = [f"inputs[{i}][{axis}] != {e}" for i, axis, e in places if defined_at.get(e) != (i, axis, 1)]
    return ranks, [*tests, *(f"!({text})" for text, _ in code.conditions)]


def numbers_or_texts(params: Mapping[str, Any]) -> dict[str, list[float] | str]:
    """Return params in the form in which OpenCV and other runtimes pass them: each a list of numbers, or a text.

    A param that is None is left out, because they cannot pass it.
    Raises LayerError for a param that is something else.
    """
    numbers: dict[str, list[float] | str] = {}
    for name, value in params.items():
        if value is None:
            continue
        several = list(value) if isinstance(value, (tuple, list)) else [value]
        if all(isinstance(v, (int, float, Flag)) for v in several):
            numbers[name] = [float(v) for v in several]
        elif len(several) == 1 and isinstance(several[0], str):
            numbers[name] = str(several[0])
        else:
            raise LayerError(f"parameter '{name}' is {value!r}; generated code takes numbers and single texts")
    return numbers
