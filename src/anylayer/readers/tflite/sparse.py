"""Sparse tensors: their dense values.

The axes of a tensor, and of blocks within it, are levels of a tree in the order of the traversal. A dense level
has an entry for each index; a sparse one has a list of indices for each entry of the level before it.
Source: tensorflow/lite/schema/schema.fbs, SparsityParameters; format_converter.cc of TensorFlow.
"""

from __future__ import annotations

import math

import numpy as np

from anylayer.errors import FileError, need
from anylayer.network import MAX_RANK, Array
from anylayer.readers._limits import MAX_SPARSE_VALUES
from anylayer.readers.tflite.flatbuffer import FlatTable

_INDICES = (np.int32, np.uint16, np.uint8)


def dense(table: FlatTable, stored: Array, shape: tuple[int, ...]) -> Array:
    """Return the dense array of stored values, of which a table says where they are. Raise FileError."""
    order, blocks = (table.numbers(name, np.int32) for name in ("traversal_order", "block_map"))
    levels, rank = table.tables("dim_metadata", "DimensionMetadata", 2 * MAX_RANK), len(shape)
    fits = len(levels) == rank + len(blocks) and sorted(order) == [*range(len(levels))]
    need(fits and len({*blocks}) == len(blocks) and all(0 <= b < rank for b in blocks), _DAMAGED, FileError)
    need(math.prod(shape) <= MAX_SPARSE_VALUES, f"it has more than {MAX_SPARSE_VALUES} values", FileError)
    sizes = dict(zip(order, (level.number("dense_size", "i") for level in levels)))
    block = {b: sizes[rank + i] for i, b in enumerate(blocks)}
    need(all(size > 0 and shape[b] % size == 0 for b, size in block.items()), _DAMAGED, FileError)
    places = np.zeros(1, np.int64)  # in C order
    for level, number in zip(levels, order):
        is_block = number >= rank
        axis = blocks[number - rank] if is_block else number
        step = 1 if is_block else block.get(axis, 1)
        limit, count = block[axis] if is_block else shape[axis] // step, places.size
        if level.number("format", "b"):
            starts, index = (_indices(level, name) for name in ("array_segments", "array_indices"))
            repeats = np.diff(starts)
            fits = starts.size == count + 1 and starts[0] == 0 and starts[-1] == index.size
            need(fits and bool((repeats >= 0).all() and (index < limit).all()), _DAMAGED, FileError)
        else:
            need(sizes[number] == limit and count * limit <= len(table.buffer.data), _DAMAGED, FileError)
            repeats, index = np.full(count, limit), np.tile(np.arange(limit), count)
        places = np.repeat(places, repeats) + index * (step * math.prod(shape[axis + 1 :]))
    need(places.size == stored.size, _DAMAGED, FileError)
    y = np.zeros(math.prod(shape), stored.dtype)
    y[places] = stored
    return y.reshape(shape)


_DAMAGED = "the places of its values do not fit its shape"


def _indices(level: FlatTable, name: str) -> Array:
    """Return a vector of numbers that are not negative, in one of three dtypes."""
    kind, stored = level.number(f"{name}_type", "B"), level.table(name, {"values": 0})
    need(stored is not None and 1 <= kind <= len(_INDICES), _DAMAGED, FileError)
    values = np.empty(0) if stored is None else stored.view("values", _INDICES[kind - 1])
    numbers = level.buffer.take(values).astype(np.int64)
    need(bool((numbers >= 0).all()), _DAMAGED, FileError)
    return numbers
