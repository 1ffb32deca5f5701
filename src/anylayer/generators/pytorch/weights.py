"""Write arrays as a .safetensors file: the length of a JSON header (8 bytes), the header, the data.

Source: https://github.com/huggingface/safetensors, README "Format".
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from anylayer.network import Array

_TYPES = {
    np.dtype(kind + size): name + str(8 * int(size))
    for kind, name, sizes in (("f", "F", "248"), ("i", "I", "1248"), ("u", "U", "1248"))
    for size in sizes
} | {np.dtype(bool): "BOOL"}
"""The format's name of each dtype."""


def to_safetensors(arrays: Mapping[str, Array]) -> list[bytes | memoryview]:
    """Return the file in pieces. The data are not copied where they are contiguous and little-endian.

    The largest items come first, so that each array is aligned to the size of its items.
    """
    header: dict[str, object] = {}
    pieces: list[bytes | memoryview] = []
    offset = 0
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        header[name] = {
            "dtype": _TYPES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + data.nbytes],
        }
        offset += data.nbytes
        pieces.append(data.reshape(-1).view(np.uint8).data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *pieces]
