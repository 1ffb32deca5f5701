"""Lower Resize per engine: keep it, multiply by interpolation matrices, or select cells."""

from __future__ import annotations

from anylayer.graph.ir import Op, Value
from anylayer.network import Array
from anylayer.ops._interpolation import CENTERS, interpolation_of, repeating, resized_axes
from anylayer.ops.resize import ResizedAxis, by_cells, is_certain
from anylayer.optimize.rules import F4, Rewriter, rule

ORT_BOTH_AXES, ORT_ONE_AXIS, _OPENVINO_AXES = 48, 72, 72
"""The sizes of the longest axes along which matrix products are faster than Resize: their work grows with the
axis."""
OPENVINO_CHANNELS = 32
"""The smallest number of channels for which OpenVINO's Resize is fast along short axes."""


def computed_by_cells(new: Rewriter, o: Op) -> list[Value] | None:
    """Replace a Resize by the cells and weights that NumPy uses; None where they depend on data."""
    axes = resized_axes(o)
    if axes is None:
        return None
    changes = [ResizedAxis(i, int(o.outputs[0].shape[i])) for i in axes]

    def resize(x: Array, *_: Array | None) -> Array:
        return by_cells(x, changes, interpolation_of(o))

    return new.compute(o, resize)


def is_portable(o: Op) -> bool:
    """Return whether each engine computes a Resize as NumPy does: no ties, and a mode with one meaning."""
    rule, axes = interpolation_of(o), resized_axes(o)
    if axes is None:
        return True  # it depends on data: nothing else computes it
    if not axes or rule.coordinates == "half_pixel_symmetric" or o["keep_aspect_ratio_policy"] != "stretch":
        return False
    if rule.mode != "nearest":
        return o.first.dtype.itemsize <= 4 and is_certain(rule, len(o.first.shape), axes)
    sizes = [(int(o.first.shape[i]), int(o.outputs[0].shape[i])) for i in axes]
    exact = [repeat[1:3] for repeat in (CENTERS, repeating([new // old for old, new in sizes]))]
    return all(new % old == 0 for old, new in sizes) and (rule.coordinates, rule.nearest) in exact


def _prefers_products(o: Op, longest: int) -> bool:
    """Return whether all resized axes are so short that products are faster."""
    return max(int(o.first.shape[i]) for i in resized_axes(o) or [0]) <= longest


def _is_plane(o: Op) -> bool:
    """Return whether rows and columns are resized, in float32, and neither to less than a quarter."""
    axes = resized_axes(o) or []
    few = any(4 * int(o.outputs[0].shape[i]) < int(o.first.shape[i]) for i in axes)
    return len(axes) == 2 and not few and o.first.dtype == F4


def _has_many_channels(o: Op) -> bool:
    """Return whether two axes of images (N, C, H, W) or (N, H, W, C) with many channels are resized."""
    if len(o.first.shape) != 4 or not _is_plane(o):
        return False
    return bool(o.first.shape[1 if 3 in (resized_axes(o) or []) else 3] >= OPENVINO_CHANNELS)


@rule(
    "Resize",
    targets=("onnxruntime",),
    stage="reduce",
    figure="products and Resize, us: 3x480x480 to 320x320 5600, 300; 64x65x65 to 129x129 1099, 737; 8x65x65 151, "
    "107; 64x20x20 to 40x40 101, 156; cubic 8x65x65 150, 12000; repetition 2 x 2 of 256x13x13 as Gathers 360, "
    "Resize 30",
)
def _resized_onnxruntime(new: Rewriter, o: Op) -> list[Value] | None:
    """Interpolate short axes by products with matrices; select cells by Gathers where a Resize is uneven."""
    short = o["mode"] != "nearest" and _prefers_products(o, ORT_BOTH_AXES if _is_plane(o) else ORT_ONE_AXIS)
    return computed_by_cells(new, o) if short or not is_portable(o) else None


@rule(
    "Resize",
    targets=("openvino",),
    stage="reduce",
    figure="products and Resize, us: 64x65x65 to 129x129 2545, 942; 256x33x33 to 65x65 1466, 646; 256x13x13 to "
    "26x26 151, 107; 8x65x65 to 129x129 300, 500",
)
def _resized_openvino(new: Rewriter, o: Op) -> list[Value] | None:
    """Interpolate few channels along short axes by a product with one matrix per axis, and select cells by
    Gathers where the Resize does not repeat each cell equally often."""
    short = o["mode"] != "nearest" and not _has_many_channels(o) and _prefers_products(o, _OPENVINO_AXES)
    return computed_by_cells(new, o) if short or not is_portable(o) else None
