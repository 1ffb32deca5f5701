"""Files of JSON objects."""

from __future__ import annotations

import json
import re
from pathlib import Path

from anylayer.errors import FileError, need
from anylayer.readers._limits import MAX_JSON_BYTES

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")


def parse(text: bytes, what: str) -> dict[str, object]:
    """Return the JSON object that a text encodes. Raise FileError if it is not one. `what` names the text."""
    try:
        value = json.loads(text)
        if _SURROGATE.search(text):  # half of a pair, which no text file can have
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise FileError(f"{what} is not readable JSON: {error}") from None
    need(isinstance(value, dict), f"{what} must be a JSON object, got a {type(value).__name__}", FileError)
    return dict(value)


def read_object(path: Path, what: str) -> dict[str, object]:
    """Return the JSON object in a file. Raise FileError if there is none, or it is too long."""
    size = path.stat().st_size
    need(size <= MAX_JSON_BYTES, f"{what} has {size} bytes of JSON; the limit is {MAX_JSON_BYTES}", FileError)
    return parse(path.read_bytes(), what)
