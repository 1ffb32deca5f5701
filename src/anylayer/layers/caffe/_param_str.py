"""The `param_str` of a layer of pycaffe: YAML, of which such files use one mapping of numbers and lists."""

from __future__ import annotations

import ast
import re
from typing import Any

from anylayer.errors import LayerError

_KEY = re.compile(r"""\s*(?:'([^']*)'|"([^"]*)"|(\w+))\s*:\s*""")
_VALUE = re.compile(r"""(\[[^\[\]]*\]|'[^']*'|"[^"]*"|[^,\n\[\]{}'"]+)\s*(?:[,\n]\s*|$)""")
_TAG = re.compile(r"!!python/tuple\s*")


def read_param_str(text: str) -> dict[str, Any]:
    """Return the values of a mapping such as `'feat_stride': 16, 'scales': [8, 16]`.

    Entries are separated by commas or line ends, with or without braces. Raise LayerError for any other text.
    """
    rest = _TAG.sub("", text).strip()
    if rest.startswith("{") and rest.endswith("}"):
        rest = rest[1:-1].strip()
    values: dict[str, Any] = {}
    while rest:
        key = _KEY.match(rest)
        value = _VALUE.match(rest, key.end()) if key is not None else None
        if key is None or value is None:
            raise LayerError(
                f"param_str must be a mapping of numbers and lists of numbers, got {text!r}; it cannot be read "
                f"from {rest[:20]!r} on"
            )
        values[key[1] or key[2] or key[3]] = _number(value[1].strip())
        rest = rest[value.end() :].strip()
    return values


def _number(text: str) -> Any:
    """Return a number, a string or a list of them; any other text is returned as it is."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two for deep expressions
        return text
