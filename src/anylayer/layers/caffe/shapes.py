"""Layers that move elements: they join, cut, pad, repeat and reorder axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any, ClassVar

import numpy as np

from anylayer.errors import wording
from anylayer.layer import Array, Layer, Shape, field, layer, need
from anylayer.layer.arguments import target_shape
from anylayer.layer.contract import PixelMap
from anylayer.layers.caffe._axes import canonical
from anylayer.layers.caffe._messages import INTEL, BlobShape, engine_field, no_effect
from anylayer.layers.caffe._resampling import need_plane, plane_of


@layer("Concat")
class Concat(Layer):
    """Concatenate the inputs along `axis`.

    All other sizes must be equal.
    Source: BVLC/caffe src/caffe/layers/concat_layer.cpp.
    """

    message = "concat_param"
    numbers = {"": 104}
    concat_dim: int = field(1, "uint32", 1, doc="older spelling of axis; not negative")
    axis: int = field(2, "int32", 1, doc="axis to concatenate along")

    engine: str = engine_field(3, INTEL)
    per_fla_fuse: bool = no_effect(4, "bool", False)

    def setup(self) -> None:
        need(not (self.has("axis") and self.has("concat_dim")), "give axis or concat_dim, not both")

    def forward(self, *inputs: Array) -> Array:
        need(inputs, "takes 1 input or more, got none")
        first = tuple(inputs[0].shape)
        if self.has("concat_dim"):
            axis = canonical(self.concat_dim, inputs[0], "concat_dim")
        else:
            axis = canonical(self.axis, inputs[0])
        for i, x in enumerate(inputs[1:], 1):
            need(
                len(x.shape) == len(first)
                and all(a == b for d, (a, b) in enumerate(zip(x.shape, first)) if d != axis),
                f"inputs must have the same shape except along axis {axis}: "
                f"input 0 is {first}, input {i} is {tuple(x.shape)}",
            )
        return inputs[0] if len(inputs) == 1 else np.concatenate(inputs, axis=axis)


@layer("Flatten")
class Flatten(Layer):
    """Flatten the axes from `axis` to `end_axis` into one.

    Source: BVLC/caffe src/caffe/layers/flatten_layer.cpp.
    """

    message = "flatten_param"
    numbers = {"": 135}
    axis: int = field(1, "int32", 1, doc="first axis to flatten")
    end_axis: int = field(2, "int32", -1, doc="last axis to flatten")

    def forward(self, x: Array) -> Array:
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        start, end = canonical(self.axis, x), canonical(self.end_axis, x, "end_axis")
        need(start <= end, f"axis must not lie after end_axis, got axis {start} and end_axis {end}")
        merged = 1
        for size in x.shape[start : end + 1]:
            merged *= size
        return x.reshape(*x.shape[:start], merged, *x.shape[end + 1 :])


@layer("Padding")
class Padding(Layer):
    """Put rows and columns of one value around a map.

    (N, C, H, W) to (N, C, pad_t + H + pad_b, pad_l + W + pad_r).
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "padding_param"
    numbers: ClassVar = {"": 166, "sophgo": 166}
    pad_method: Any = field(1, "any", None, doc="not supported: its meanings are not known")
    pad_l: int = field(2, "uint32", 0, doc="columns on the left")
    pad_r: int = field(3, "uint32", 0, doc="columns on the right")
    pad_t: int = field(4, "uint32", 0, doc="rows above")
    pad_b: int = field(5, "uint32", 0, doc="rows below")
    pad_value: int = field(6, "int32", 0, doc="value of the new elements")

    def setup(self) -> None:
        need(not self.has("pad_method"), "pad_method is not supported, since its meanings are not known")

    def forward(self, x: Array) -> Array:
        h, w = plane_of(x)
        rows, columns = (self.pad_t, self.pad_b), (self.pad_l, self.pad_r)
        need_plane(h + sum(rows), w + sum(columns))
        return np.pad(x, [(0, 0), (0, 0), rows, columns], constant_values=np.float32(self.pad_value))


@layer("Permute")
class Permute(Layer):
    """Permute the axes: output axis i is input axis order[i]; axes not listed follow in their order.

    Source: weiliu89/caffe (branch ssd) src/caffe/layers/permute_layer.cpp.
    """

    message = "permute_param"
    numbers = {
        "sophgo": 202,
        "": 202,
        "ssd": 202,
        "caffe-plus": 150,
        "atlas": 151,
        "opencv": 148,
        "model-optimizer": 154,
    }
    order: tuple[int, ...] = field(1, "uint32", repeated=True, doc="axes of the input, in the order of the output")

    def forward(self, x: Array) -> Array:
        rank = len(x.shape)
        for axis in self.order:
            need(axis < rank, f"order must list axes below {rank} for shape {tuple(x.shape)}, got {axis}")
        need(
            len(set(self.order)) == len(self.order),
            f"order names an axis twice: {', '.join(map(str, self.order))}",
        )
        return x.transpose(*self.order, *(axis for axis in range(rank) if axis not in self.order))


@layer("Reshape")
class Reshape(Layer):
    """Replace `num_axes` axes from `axis` on by axes of the sizes `shape`.

    Source: BVLC/caffe src/caffe/layers/reshape_layer.cpp.
    """

    message = "reshape_param"
    numbers = {"": 133}
    shape: BlobShape = field(
        1, BlobShape, doc="new sizes; 0 copies the size of that input axis, one -1 is inferred"
    )
    axis: int = field(2, "int32", 0, doc="first axis replaced; -1: after the last one")
    num_axes: int = field(3, "int32", -1, doc="number of axes replaced; -1: all the rest, 0: insert the sizes")

    pixelshuffler: int = no_effect(4, "uint32", 0)

    def setup(self) -> None:
        dims = self.shape.dim
        need(dims.count(-1) <= 1, f"shape may have one -1, got {list(dims)}")
        need(all(d >= -1 for d in dims), f"sizes must be positive, 0 or -1, got {list(dims)}")
        need(self.num_axes >= -1, f"num_axes must be -1 or more, got {self.num_axes}")

    def forward(self, x: Array) -> Array:
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        rank = len(x.shape)
        start = self.axis if self.axis >= 0 else rank + self.axis + 1
        need(
            0 <= start <= rank,
            f"axis must lie in {-rank - 1}..{rank} for an input of shape {tuple(x.shape)}, got {self.axis}",
        )
        end = rank if self.num_axes == -1 else start + self.num_axes
        need(
            end <= rank, f"axis={start} and num_axes={self.num_axes} reach past the input's shape {tuple(x.shape)}"
        )
        sizes = target_shape(x.shape[start:end], self.shape.dim, "shape", x.shape[start:])
        return x.reshape((*x.shape[:start], *sizes, *x.shape[end:]))


@layer("ShuffleChannel")
class ShuffleChannel(Layer):
    """Shuffle the channels: reshape them to (group, C / group), transpose, and flatten.

    (N, C, ...) to the same shape.
    Source: farmingyard/ShuffleNet src/caffe/layers/shuffle_channel_layer.cpp; arXiv 1707.01083.
    """

    message = "shuffle_channel_param"
    numbers = {"sophgo": 164, "ascend": 159, "shufflenet": 164, "caffe2onnx": 164, "synopsys": 166, "ncnn": 145}
    group: int = field(1, "uint32", 1, doc="number of groups; must divide the channels")

    def forward(self, x: Array) -> Array:
        need(len(x.shape) >= 2, f"needs an input (N, C, ...), got shape {tuple(x.shape)}")
        n, c, *rest = x.shape
        need(self.group > 0 and c % self.group == 0, f"group={self.group} does not divide {c} channels")
        return x.reshape(n, self.group, c // self.group, *rest).swapaxes(1, 2).reshape(x.shape)


@layer("Slice")
class Slice(Layer):
    """Split the input along `axis` into one part per output, at the given points or into equal parts.

    Source: BVLC/caffe src/caffe/layers/slice_layer.cpp.
    """

    message = "slice_param"
    numbers = {"": 126}
    slice_dim: int = field(1, "uint32", 1, doc="older spelling of axis; not negative")
    slice_point: tuple[int, ...] = field(2, "uint32", repeated=True, doc="start of each part except the first")
    axis: int = field(3, "int32", 1, doc="axis to split")

    def setup(self) -> None:
        need(not (self.has("axis") and self.has("slice_dim")), "give axis or slice_dim, not both")

    def forward(self, x: Array) -> list[Array]:
        older = self.has("slice_dim")
        axis = canonical(self.slice_dim, x, "slice_dim") if older else canonical(self.axis, x)
        size = x.shape[axis]
        ends = self._ends(size)
        before = (slice(None),) * axis
        windows = [(*before, slice(a, b)) for a, b in zip([0, *ends], ends)]
        return [x[window] for window in windows]

    def _ends(self, size: int) -> list[int]:
        points = self.slice_point
        if not points:
            need(
                self.outputs <= size and size % self.outputs == 0,
                f"{self.outputs} outputs do not divide the axis of size {size}; give slice_point",
            )
            return [size // self.outputs * (i + 1) for i in range(self.outputs)]
        need(
            len(points) == self.outputs - 1,
            f"{self.outputs} outputs need {self.outputs - 1} slice_point, got {len(points)}",
        )
        ends = [*points, size]
        need(
            all(a < b for a, b in zip([0, *ends], ends)),
            f"slice_point must increase from 1 to at most {size - 1}, got {list(points)}",
        )
        return ends


@layer("Split")
class Split(Layer):
    """Return the input once per output.

    Each output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/split_layer.cpp.
    """

    elementwise = True

    def forward(self, x: Array) -> list[Array]:
        return [x] * self.outputs


@layer("Tile")
class Tile(Layer):
    """Repeat the input `tiles` times along `axis`.

    Source: BVLC/caffe src/caffe/layers/tile_layer.cpp.
    """

    message = "tile_param"
    numbers = {"": 138}
    axis: int = field(1, "int32", 1, doc="axis to repeat along")
    tiles: int = field(2, "int32", doc="number of copies")

    def setup(self) -> None:
        need(self.tiles > 0, f"tiles must be positive, got {self.tiles}")

    def forward(self, x: Array) -> Array:
        axis = canonical(self.axis, x)
        limit = 2**31 - 1  # limit on the elements of a blob in Caffe's blob.cpp
        count = prod(d for d in x.shape if isinstance(d, int)) * self.tiles
        need(
            count <= limit,
            f"tiles={self.tiles} makes {count} elements of {tuple(x.shape)}, at most {limit} are supported",
        )
        return np.tile(x, tuple(self.tiles if i == axis else 1 for i in range(len(x.shape))))


@layer("Transpose")
class Transpose(Layer):
    """Permute the axes: output axis i is input axis dim[i].

    Source: tianzhi0549/caffe (CTPN) src/caffe/layers/transpose_layer.cpp.
    """

    message = "transpose_param"
    dim: tuple[int, ...] = field(
        1, "int32", repeated=True, doc="all axes of the input, in the order of the output"
    )

    def forward(self, x: Array) -> Array:
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        rank = len(x.shape)
        need(
            sorted(self.dim) == list(range(rank)),
            f"dim must name each axis of shape {tuple(x.shape)} once, 0..{rank - 1}, got {list(self.dim)}",
        )
        return x.transpose(*self.dim)


@layer("Crop")
class Crop(Layer):
    """Crop the first input to the sizes of the second from `axis` on, starting at `offset`.

    Source: BVLC/caffe src/caffe/layers/crop_layer.cpp.
    """

    aligned = True
    message = "crop_param"
    numbers = {"": 144}
    axis: int = field(1, "int32", 2, doc="first axis to crop")
    offset: tuple[int, ...] = field(
        2, "uint32", repeated=True, doc="start of the crop: one for all axes, or one per axis; default 0"
    )

    def coordinates(self) -> PixelMap | None:
        offsets = {0: (0, 0), 1: self.offset * 2, 2: self.offset}.get(len(self.offset)) if self.axis == 2 else None
        if offsets is None:
            return None
        return (Fraction(1), Fraction(-offsets[0])), (Fraction(1), Fraction(-offsets[1]))

    @classmethod
    def others(cls, values: Mapping[str, Any], shapes: Sequence[Shape]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the offset of a crop from the centre, as OpenCV's tutorial on HED cuts."""
        axis = int(values.get("axis", 2))
        if "offset" not in values and len(shapes) == 2 and len(shapes[0]) == len(shapes[1]):
            spare = [have - size for have, size in zip(shapes[0][axis:], shapes[1][axis:])]
            if any(spare) and min(spare) >= 0:
                yield "offset: the centre", {"axis": axis, "offset": [n // 2 for n in spare]}

    def forward(self, x: Array, reference: Array) -> Array:
        if not self._given:
            self.note(
                "Crop without crop_param cuts from the corner (offset 0), as BVLC Caffe does; HED's fork aligns "
                "by the network's geometry instead: give "
                + wording("dialect='hed'", "--dialect hed")
                + ", or write crop_param { offset: ... }"
            )
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        need(
            len(x.shape) == len(reference.shape),
            f"both inputs must have the same number of axes, got {tuple(x.shape)} and {tuple(reference.shape)}",
        )
        axis = canonical(self.axis, x)
        cut = len(x.shape) - axis
        need(
            len(self.offset) in (0, 1, cut),
            f"offset must be given once, or once for each of the {cut} axes from axis {axis} on, "
            f"got {len(self.offset)} offsets",
        )
        offsets = self.offset if len(self.offset) == cut else (self.offset or (0,)) * cut
        window = [slice(None)] * axis
        for i, offset in enumerate(offsets, axis):
            size, length = x.shape[i], reference.shape[i]
            need(
                offset + length <= size,
                f"offset {offset} and size {length} reach past the {size} cells of axis {i}",
            )
            window.append(slice(offset, offset + length))
        return x[tuple(window)]
