"""Parts cut out of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Operation, attribute, axis_of, layer, need, single, whole
from anylayer.tracing import is_traced


@layer("Slice")
class Slice(Operation):
    """A box: where it begins, and its size (-1: up to the end)."""

    def forward(self, x: Any, begin: Any, size: Any) -> Any:
        first, sizes = whole(begin, "begin"), whole(size, "size")
        rank = len(x.shape)
        need(len(first) == len(sizes) == rank, f"begin and size must be {rank} numbers, got {first} and {sizes}")
        key = []
        for axis, (b, s, n) in enumerate(zip(first, sizes, x.shape)):
            s = n - b if s == -1 else s
            need(
                b >= 0 and s >= 0 and b + s <= n,
                f"begin {b} and size {s} do not lie in the {n} cells of axis {axis}",
            )
            key.append(slice(b, b + s))
        return x[tuple(key)]


@layer("StridedSlice")
class StridedSlice(Operation):
    """What x[begin:end:strides, ...] cuts out.

    Bit i of a mask speaks of the i-th entry: begin_mask (from the start), end_mask (up to the end), ellipsis_mask
    (...), new_axis_mask, shrink_axis_mask (an index, not a slice).
    """

    begin_mask: int = attribute("int64", 0)
    end_mask: int = attribute("int64", 0)
    ellipsis_mask: int = attribute("int64", 0)
    new_axis_mask: int = attribute("int64", 0)
    shrink_axis_mask: int = attribute("int64", 0)

    def forward(self, x: Any, begin: Any, end: Any, strides: Any) -> Any:
        begins, ends, steps = whole(begin, "begin"), whole(end, "end"), whole(strides, "strides")
        need(
            len(begins) == len(ends) == len(steps),
            f"begin, end and strides must be of one length, got {len(begins)}, {len(ends)} and {len(steps)}",
        )
        need(self.ellipsis_mask.bit_count() <= 1, f"ellipsis_mask={self.ellipsis_mask} has more than one bit")
        need(all(steps), "strides must not be 0")
        count = len(begins)
        taken = [i for i in range(count) if not self._is_new(i) and not self.ellipsis_mask >> i & 1]
        need(
            len(taken) <= len(x.shape),
            f"{len(taken)} entries for the {len(x.shape)} axes of {tuple(x.shape)}",
        )
        key: list[Any] = []
        axis = 0
        for i in range(count):
            if self.ellipsis_mask >> i & 1:
                key.append(Ellipsis)
                axis = len(x.shape) - sum(t > i for t in taken)
            elif self._is_new(i):
                key.append(None)
            else:
                key.append(self._entry(i, x.shape[axis], axis, begins[i], ends[i], steps[i]))
                axis += 1
        return x[tuple(key)]

    def _is_new(self, i: int) -> bool:
        return bool(self.new_axis_mask >> i & 1) and not self.ellipsis_mask >> i & 1

    def _entry(self, i: int, size: int, axis: int, begin: int, end: int, step: int) -> Any:
        if self.shrink_axis_mask >> i & 1:
            need(-size <= begin < size, f"index {begin} is out of the {size} cells of axis {axis}")
            return begin
        first = None if self.begin_mask >> i & 1 else begin
        last = None if self.end_mask >> i & 1 else end
        return slice(first, last, step)


class _Picked(Operation):
    harmless = frozenset({"validate_indices", "bad_indices_policy"})


def _checked(indices: Any, size: int) -> Any:
    """Indices known before the network runs must lie in their axis."""
    need(indices.dtype.kind in "iu", f"indices must be whole numbers, got {indices.dtype}")
    if not is_traced(indices) and np.size(indices):
        need(
            np.min(indices) >= 0 and np.max(indices) < size,
            f"indices must lie in 0..{size - 1}, got {np.min(indices)} to {np.max(indices)}",
        )
    return indices


@layer("Gather")
class Gather(_Picked):
    """Rows by number."""

    def forward(self, x: Any, indices: Any) -> Any:
        need(len(x.shape) >= 1, "a scalar has no rows")
        return ops.gather(x, _checked(indices, x.shape[0]), axis=0)


@layer("GatherV2")
class GatherV2(_Picked):
    """Parts along an axis by number; with batch_dims of each batch its own."""

    batch_dims: int = attribute("int64", 0)

    def forward(self, x: Any, indices: Any, axis: Any) -> Any:
        over = axis_of(single(axis, "axis"), len(x.shape))
        indices = _checked(indices, x.shape[over])
        lead = axis_of(self.batch_dims, len(indices.shape) + 1, "batch_dims") if self.batch_dims else 0
        if lead == 0:
            return ops.gather(x, indices, axis=over)
        need(
            lead <= over and tuple(x.shape[:lead]) == tuple(indices.shape[:lead]),
            f"the first batch_dims={lead} axes of {tuple(x.shape)} and {tuple(indices.shape)} must agree",
        )
        batch = int(np.prod(x.shape[:lead]))
        flat, picks = x.reshape(batch, *x.shape[lead:]), indices.reshape(batch, *indices.shape[lead:])
        parts = [ops.gather(flat[i], picks[i], axis=over - lead) for i in range(batch)]
        done = np.stack(parts)
        return done.reshape(*x.shape[:lead], *done.shape[1:])


@layer("ResourceGather")
class ResourceGather(_Picked):
    """Rows of a variable by number."""

    batch_dims: int = attribute("int64", 0)
    harmless = frozenset({"validate_indices", "dtype"})

    def forward(self, x: Any, indices: Any) -> Any:
        need(self.batch_dims == 0, f"batch_dims must be 0, got {self.batch_dims}")
        return ops.gather(x, _checked(indices, x.shape[0]), axis=0)


@layer("GatherNd")
class GatherNd(_Picked):
    """Parts by lists of indices."""

    def forward(self, x: Any, indices: Any) -> Any:
        return ops.gather_nd(x, indices.astype(np.int64))


@layer("OneHot")
class OneHot(Operation):
    """on_value where an index points, off_value elsewhere, along a new axis."""

    axis: int = attribute("int64", -1)

    def forward(self, indices: Any, depth: Any, on: Any, off: Any) -> Any:
        count = single(depth, "depth")
        need(0 <= count < 1 << 24, f"depth must lie in 0..{(1 << 24) - 1}, got {count}")
        rank = len(indices.shape)
        axis = axis_of(self.axis, rank + 1)
        spread = indices.reshape((*indices.shape[:axis], 1, *indices.shape[axis:]))
        cells = np.arange(count, dtype=indices.dtype).reshape(-1, *(1,) * (rank - axis))
        return np.where(spread == cells, on, off)


class _Top(Operation):
    sorted: bool = attribute("bool", True)

    @classmethod
    def results(cls, attr: Any) -> Any:
        return (("values", 1), ("indices", 1))

    def best(self, x: Any, k: int) -> Any:
        """The k largest of the last axis."""
        need(0 <= k <= x.shape[-1], f"k={k} is more than the {x.shape[-1]} values of the last axis")
        values, indices = ops.top_k(x, k, axis=-1)
        return values, indices.astype(np.int32)


@layer("TopK")
class TopK(_Top):
    """The k largest values of the last axis and where they lie (k is an attribute)."""

    k: int = attribute("int64")

    def forward(self, x: Any) -> Any:
        return self.best(x, self.k)


@layer("TopKV2")
class TopKV2(_Top):
    """The k largest values of the last axis and where they lie (k is an input)."""

    index_type: str = attribute("string", "int32")

    def forward(self, x: Any, k: Any) -> Any:
        values, indices = self.best(x, single(k, "k"))
        need(self.index_type in ("int32", "int64"), f"index_type must be int32 or int64, got {self.index_type}")
        return values, indices.astype(self.index_type)


@layer("ReverseSequence")
class ReverseSequence(Operation):
    """The first steps of each sequence back to front."""

    seq_dim: int = attribute("int64")
    batch_dim: int = attribute("int64", 0)

    def forward(self, x: Any, lengths: Any) -> Any:
        rank = len(x.shape)
        time, batch = axis_of(self.seq_dim, rank, "seq_dim"), axis_of(self.batch_dim, rank, "batch_dim")
        need(time != batch, f"seq_dim and batch_dim must differ, got {time} for both")
        steps = np.arange(x.shape[time], dtype=lengths.dtype)
        length = lengths.reshape(-1, 1)
        picks = np.where(steps < length, length - 1 - steps, steps)
        front = np.moveaxis(x, (batch, time), (0, 1))
        parts = [ops.gather(front[i], picks[i], axis=0) for i in range(front.shape[0])]
        return np.moveaxis(np.stack(parts), (0, 1), (batch, time))


@layer("Where")
class Where(Operation):
    """The indices of what is true."""

    def forward(self, x: Any) -> Any:
        return np.argwhere(x).astype(np.int64)
