"""Layers that move elements: they join, cut, pad, repeat and reorder axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from anylayer.errors import wording
from anylayer.layer import Array, Layer, Shape, field, layer, need
from anylayer.layer.arguments import target_shape
from anylayer.layer.contract import PixelMap
from anylayer.layers._resampling import need_plane, plane_of
from anylayer.layers._table import operators, row
from anylayer.layers.caffe._axes import canonical, need_output_apart
from anylayer.layers.caffe._messages import INTEL, BlobShape, engine_field, no_effect, reads


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
        need_output_apart(self.in_place)
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
        need_output_apart(self.in_place)
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


def _flatten(x: Array, axis: int, end_axis: int, *, in_place: bool) -> Array:
    need_output_apart(in_place)
    start, end = canonical(axis, x), canonical(end_axis, x, "end_axis")
    need(start <= end, f"axis must not lie after end_axis, got axis {start} and end_axis {end}")
    return x.reshape(*x.shape[:start], prod(x.shape[start : end + 1]), *x.shape[end + 1 :])


def _pad(
    x: Array, pad_l: int, pad_r: int, pad_t: int, pad_b: int, pad_value: int, *, has: Callable[[str], bool]
) -> Array:
    need(not has("pad_method"), "pad_method is not supported, since its meanings are not known")
    h, w = plane_of(x)
    need_plane(h + pad_t + pad_b, w + pad_l + pad_r)
    borders = [(0, 0), (0, 0), (pad_t, pad_b), (pad_l, pad_r)]
    return np.pad(x, borders, constant_values=np.float32(pad_value))


def _permute(x: Array, order: Sequence[int]) -> Array:
    rank = len(x.shape)
    for axis in order:
        need(axis < rank, f"order must list axes below {rank} for shape {tuple(x.shape)}, got {axis}")
    need(len(set(order)) == len(order), f"order names an axis twice: {', '.join(map(str, order))}")
    return x.transpose(*order, *(axis for axis in range(rank) if axis not in order))


def _shuffle(x: Array, group: int) -> Array:
    need(len(x.shape) >= 2, f"needs an input (N, C, ...), got shape {tuple(x.shape)}")
    n, c, *rest = x.shape
    need(group > 0 and c % group == 0, f"group={group} does not divide {c} channels")
    return x.reshape(n, group, c // group, *rest).swapaxes(1, 2).reshape(x.shape)


_MAX_VALUES = 2**31 - 1  # elements of a blob in Caffe's blob.cpp


def _tile(x: Array, axis: int, tiles: int) -> Array:
    axis, count = canonical(axis, x), prod(d for d in x.shape if isinstance(d, int)) * tiles
    need(
        count <= _MAX_VALUES,
        f"tiles={tiles} makes {count} elements of {tuple(x.shape)}, at most {_MAX_VALUES} are supported",
    )
    return np.tile(x, tuple(tiles if i == axis else 1 for i in range(len(x.shape))))


def _transpose(x: Array, dim: Sequence[int], *, in_place: bool) -> Array:
    need_output_apart(in_place)
    rank = len(x.shape)
    need(
        sorted(dim) == list(range(rank)),
        f"dim must name each axis of shape {tuple(x.shape)} once, 0..{rank - 1}, got {list(dim)}",
    )
    return x.transpose(*dim)


operators(
    Layer,
    "Source: {}.",
    {
        "Flatten": row("Flatten the axes from `axis` to `end_axis` into one.", _flatten,
            "BVLC/caffe src/caffe/layers/flatten_layer.cpp", body=reads("flatten_param", 135),
            axis=field(1, "int32", 1, doc="first axis to flatten"),
            end_axis=field(2, "int32", -1, doc="last axis to flatten")),
        "Padding": row("Put rows and columns of one value around a map.", _pad,
            "the Caffe in tpu-mlir 1.30.2 "
            "(executed)", "(N, C, H, W) to (N, C, pad_t + H + pad_b, pad_l + W + pad_r).",
            reads("padding_param", {"": 166, "sophgo": 166},
                pad_method=field(1, "any", None, doc="not supported: its meanings are not known")),
            pad_l=field(2, "uint32", 0, doc="columns on the left"),
            pad_r=field(3, "uint32", 0, doc="columns on the right"),
            pad_t=field(4, "uint32", 0, doc="rows above"),
            pad_b=field(5, "uint32", 0, doc="rows below"),
            pad_value=field(6, "int32", 0, doc="value of the new elements")),
        "Permute": row(
            "Permute the axes: output axis i is input axis order[i]; axes not listed follow in their "
            "order.", _permute,
            "weiliu89/caffe (branch ssd) src/caffe/layers/permute_layer.cpp",
            body=reads("permute_param", {
                "sophgo": 202, "": 202, "ssd": 202, "caffe-plus": 150, "atlas": 151, "opencv": 148,
                "model-optimizer": 154}),
            order=field(1, "uint32", repeated=True, doc="axes of the input, in the order of the output")),
        "ShuffleChannel": row(
            "Shuffle the channels: reshape them to (group, C / group), transpose, and flatten.", _shuffle,
            "farmingyard/ShuffleNet src/caffe/layers/shuffle_channel_layer.cpp; arXiv 1707.01083",
            "(N, C, ...) to the same shape.",
            reads("shuffle_channel_param", {
                "sophgo": 164, "ascend": 159, "shufflenet": 164, "caffe2onnx": 164, "synopsys": 166, "ncnn": 145}),
            group=field(1, "uint32", 1, doc="number of groups; must divide the channels")),
        "Split": row("Return the input once per output.", lambda x, *, outputs: [x] * outputs,
            "BVLC/caffe src/caffe/layers/split_layer.cpp", "Each output has the shape of the input.",
            {"elementwise": True}),
        "Tile": row("Repeat the input `tiles` times along `axis`.", _tile,
            "BVLC/caffe src/caffe/layers/tile_layer.cpp", body=reads("tile_param", 138),
            axis=field(1, "int32", 1, doc="axis to repeat along"),
            tiles=field(2, "int32", least=1, doc="number of copies")),
        "Transpose": row("Permute the axes: output axis i is input axis dim[i].", _transpose,
            "tianzhi0549/caffe (CTPN) src/caffe/layers/transpose_layer.cpp", body={"message": "transpose_param"},
            dim=field(1, "int32", repeated=True, doc="all axes of the input, in the order of the output")),
    },
    __module__=__name__,
)  # fmt: skip
