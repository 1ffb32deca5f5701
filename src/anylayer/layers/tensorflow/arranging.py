"""Values arranged anew: joined, cut, repeated, transposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import (
    Operation,
    attribute,
    axes_of,
    axis_of,
    count_of,
    known,
    layer,
    need,
    single,
    whole,
)


class _Counted(Operation):
    """A number of outputs that attribute `counted` gives."""

    counted = "num_split"

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("output", count_of(attr, cls.counted)),)


@layer("Concat")
class Concat(Operation):
    """Joined along an axis, which comes first (the oldest graphs)."""

    def forward(self, axis: Any, *xs: Any) -> Any:
        need(xs, "needs 1 array or more, got 0")
        return np.concatenate(xs, axis=axis_of(single(axis, "concat_dim"), len(xs[0].shape), "concat_dim"))


@layer("ConcatV2")
class ConcatV2(Operation):
    """Joined along an axis, which comes last."""

    def forward(self, *given: Any) -> Any:
        need(len(given) >= 2, f"needs 1 array or more and an axis, got {len(given)} inputs")
        *xs, axis = given
        return np.concatenate(xs, axis=axis_of(single(axis, "axis"), len(xs[0].shape)))


@layer("Pack")
class Pack(Operation):
    """Joined along a new axis."""

    axis: int = attribute("int64", 0)

    def forward(self, *xs: Any) -> Any:
        need(xs, "needs 1 input or more, got 0")
        return np.stack(xs, axis=axis_of(self.axis, len(xs[0].shape) + 1))


@layer("Unpack")
class Unpack(_Counted):
    """The parts along an axis, which goes."""

    axis: int = attribute("int64", 0)
    num: int = attribute("int64")
    counted = "num"

    def forward(self, x: Any) -> Any:
        axis = axis_of(self.axis, len(x.shape))
        need(x.shape[axis] == self.num, f"axis {axis} of {tuple(x.shape)} has not num={self.num} parts")
        return [np.take(x, i, axis=axis) for i in range(self.num)]


@layer("Split")
class Split(_Counted):
    """Equal parts along an axis, which comes first."""

    num_split: int = attribute("int64")

    def forward(self, axis: Any, x: Any) -> Any:
        over = axis_of(single(axis, "split_dim"), len(x.shape), "split_dim")
        need(
            x.shape[over] % self.num_split == 0,
            f"num_split={self.num_split} does not divide the {x.shape[over]} cells of axis {over}",
        )
        return list(np.split(x, self.num_split, axis=over))


@layer("SplitV")
class SplitV(_Counted):
    """Parts of given sizes along an axis; one size may be -1: what is left."""

    num_split: int = attribute("int64")

    def forward(self, x: Any, sizes: Any, axis: Any) -> Any:
        over = axis_of(single(axis, "split_dim"), len(x.shape), "split_dim")
        parts = whole(sizes, "size_splits")
        need(
            len(parts) == self.num_split and parts.count(-1) <= 1 and min(parts) >= -1,
            f"size_splits must be {self.num_split} sizes of which one may be -1, got {parts}",
        )
        if -1 in parts:
            parts[parts.index(-1)] = x.shape[over] - sum(p for p in parts if p >= 0)
        need(
            sum(parts) == x.shape[over] and min(parts) >= 0,
            f"size_splits {parts} do not add up to the {x.shape[over]} cells of axis {over}",
        )
        return list(np.split(x, np.cumsum(parts)[:-1].tolist(), axis=over))


@layer("Transpose")
class Transpose(Operation):
    """The axes in another order."""

    def forward(self, x: Any, perm: Any) -> Any:
        order = axes_of(whole(perm, "perm"), len(x.shape), "perm")
        need(len(order) == len(x.shape), f"perm must name {len(x.shape)} axes, got {order}")
        return x.transpose(order)


@layer("Tile")
class Tile(Operation):
    """Repeated along each axis."""

    def forward(self, x: Any, multiples: Any) -> Any:
        times = whole(multiples, "multiples")
        need(
            len(times) == len(x.shape) and all(t >= 0 for t in times),
            f"multiples must be {len(x.shape)} numbers, one an axis, got {times}",
        )
        return np.tile(x, times)


@layer("ReverseV2")
class ReverseV2(Operation):
    """Back to front along some axes."""

    def forward(self, x: Any, axes: Any) -> Any:
        return np.flip(x, tuple(axes_of(whole(axes, "axis"), len(x.shape))))


def _pairs(paddings: Any, rank: int) -> list[tuple[int, int]]:
    values = whole(paddings, "paddings", 2)
    need(
        tuple(paddings.shape) == (rank, 2) and all(v >= 0 for v in values),
        f"paddings must be {rank} pairs of 0 or more, got shape {tuple(paddings.shape)}: {values[:20]}",
    )
    return list(zip(values[::2], values[1::2]))


@layer("Pad")
class Pad(Operation):
    """Zeros around."""

    def forward(self, x: Any, paddings: Any) -> Any:
        return np.pad(x, _pairs(paddings, len(x.shape)))


@layer("PadV2")
class PadV2(Operation):
    """A value around."""

    def forward(self, x: Any, paddings: Any, value: Any) -> Any:
        around = known(value, "constant_values")
        need(around.size == 1, f"constant_values must be one number, got shape {around.shape}")
        return np.pad(x, _pairs(paddings, len(x.shape)), constant_values=around.reshape(())[()])


@layer("MirrorPad")
class MirrorPad(Operation):
    """Mirrored around: REFLECT without the edge, SYMMETRIC with it."""

    mode: str = attribute("string")

    def forward(self, x: Any, paddings: Any) -> Any:
        return mirrored(x, paddings, self.mode)


def mirrored(x: Any, paddings: Any, mode: str) -> Any:
    """Pad with mirrored values: REFLECT leaves the edge out, SYMMETRIC repeats it."""
    need(mode in ("REFLECT", "SYMMETRIC"), f"mode must be REFLECT or SYMMETRIC, got '{mode}'")
    pairs = _pairs(paddings, len(x.shape))
    for axis, (n, pair) in enumerate(zip(x.shape, pairs)):
        most = n - (mode == "REFLECT")
        need(max(pair) <= most, f"paddings {pair} of axis {axis} are more than its {most} cells to mirror")
    return np.pad(x, pairs, mode="reflect" if mode == "REFLECT" else "symmetric")
