"""Files with recorded cases: `index`, a list in JSON, and `data`, the bytes to which it refers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.network import Array

Arrays = Callable[[Any], dict[str, Array]]


def stored_cases(file: Path) -> tuple[list[Any], bytes, Arrays]:
    """Return the entries of the index, the data, and the function that returns the arrays of such an entry."""
    with np.load(file) as stored:
        index, data = json.loads(stored["index"].tobytes()), stored["data"].tobytes()

    def arrays(entries: Any) -> dict[str, Array]:
        return {
            name: np.frombuffer(data[start:stop], dtype).reshape(shape)
            for name, (shape, dtype, start, stop) in entries.items()
        }

    return index, data, arrays
