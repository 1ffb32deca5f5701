"""SSD's prior boxes as a loop over params. A layer is recognized by the names of its params; the boxes of the loop
are then compared with those of the layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anylayer.folders import fill, template
from anylayer.layer.opencv import opencv_params
from anylayer.network import Array
from anylayer.source import TracedNode

_FIELDS = ("img_size", "min_size", "max_size", "aspect_ratios", "variances", "clip")
_NEAR = 1e-5


@dataclass(frozen=True, slots=True)
class PriorLayer:
    """A layer of prior boxes. `params` are those of its struct, `read` those that the boxes depend on. `rows` says
    that each row holds a box and its variances; otherwise all variances follow all boxes.
    """

    params: Mapping[str, object]
    read: set[str]
    rows: bool

    def code(self, name: str, put: str) -> str:
        """Return the statements of the callback of this name, and its closing brace. `put` writes the output."""
        place = (
            "std::memcpy(&output[count * 8], &box, sizeof(box));"
            if self.rows
            else "std::memcpy(&output[count * 4], &box, 16);\n"
            "        std::memcpy(&output[output.size() / 2 + count * 4], &box.xv, 16);"
        )
        steps = [f"{size} / layer.input_dim[{i}]" for i, size in enumerate(("width", "height"))]
        if "step" in self.read:
            steps = ["box_param->step[0]", "box_param->step[1]"]
        return fill(
            template(__file__, "priors.cpp"),
            type=f"custom_param_{name}",
            place=place,
            put=put,
            step_x=steps[0],
            step_y=steps[1],
            offset="box_param->offset" if "offset" in self.read else "0.5f",
        )


def priors_of(value: Array, traced: TracedNode | None) -> PriorLayer | None:
    """Return the loop that computes a constant from the params of its layer, or None if the constant is something
    else.
    """
    if traced is None or value.dtype != np.float32:
        return None
    params = opencv_params(traced.node.params, traced.node.defaults)
    kinds = [t for t in traced.inputs if t is not None]
    if not kinds or len(kinds[0].shape) != 4:
        return None
    own = all(name in params for name in _FIELDS)
    fields = dict(params) if own else _of_caffe(params, kinds)
    if fields is None:
        return None
    read = set(_FIELDS if own else fields)
    last = traced.node.layout == "NHWC"
    rows, columns = kinds[0].shape[1:3] if last else kinds[0].shape[2:]
    boxes = _boxes({name: fields[name] for name in read}, int(rows), int(columns))
    if boxes is None or boxes.size != value.size:
        return None
    planes = np.stack([boxes[:, :4].reshape(-1), boxes[:, 4:].reshape(-1)])
    for is_rows, found in ((True, boxes), (False, planes)):
        if found.shape == value.shape[-2:] and np.allclose(found, value.reshape(found.shape), 0, _NEAR):
            return PriorLayer({name: fields[name] for name in fields if is_rows or name in read}, read, is_rows)
    return None


def _of_caffe(params: Mapping[str, Any], kinds: Sequence[Any]) -> dict[str, Any] | None:
    """Return the params of Caffe's PriorBox under the names of DMP's tool, or None for a layer without them.

    Two params are Caffe's only: `step`, the distance of two centers (x, y) in pixels, and `offset`, the place of a
    center in its cell. Without them, the cells divide the image, and each center is in the middle of its cell.
    """
    low, high = (_numbers(params.get(name)) for name in ("min_size", "max_size"))
    if not low or len(high) not in (0, len(low)) or len(kinds) != 2 or len(kinds[1].shape) != 4:
        return None
    size = _numbers(params.get("img_size")) or _numbers(params.get("img_w")) + _numbers(params.get("img_h"))
    ratios = [1.0, *([1.0] if high else [])]
    for ratio in _numbers(params.get("aspect_ratio")):
        if all(abs(ratio - known) > 1e-6 for known in ratios):
            ratios += [ratio, 1 / ratio] if params.get("flip", True) else [ratio]
    step = _numbers(params.get("step")) or _numbers(params.get("step_w")) + _numbers(params.get("step_h"))
    high = high or [0.0] * len(low)
    return {
        "img_size": [int(s) for s in (size * 2)[:2]] if size else [int(d) for d in kinds[1].shape[:1:-1]],
        "min_size": low if low[1:] else low[0],
        "max_size": high if low[1:] else high[0],
        "aspect_ratios": ratios,
        "variances": _numbers(params.get("variance")) or [0.1],
        "clip": bool(params.get("clip", False)),
        **({"step": (step * 2)[:2]} if any(step) else {}),
        **({"offset": float(params["offset"])} if params.get("offset", 0.5) != 0.5 else {}),
    }


def _numbers(value: Any) -> list[float]:
    return [] if value is None else [float(v) for v in np.atleast_1d(value)]


def _boxes(fields: Mapping[str, Any], rows: int, columns: int) -> Array | None:
    """Return the boxes (count, 8) that the C++ code computes, in the same order and precision."""
    width, height = (float(v) for v in fields["img_size"])
    variances, lows, highs = (_numbers(fields[name]) for name in ("variances", "min_size", "max_size"))
    if len(variances) not in (1, 4) or len(lows) != len(highs):
        return None
    if min(width, height, *map(float, fields["aspect_ratios"])) <= 0:
        return None
    halves: list[tuple[float, float]] = []
    for low, high in zip(lows, highs):
        for i, ratio in enumerate(map(float, fields["aspect_ratios"])):
            side = math.sqrt(low * high) if i else low
            both = (0.5 * side, 0.5 * side)
            halves.append(both if ratio == 1 else (0.5 * low * math.sqrt(ratio), 0.5 * low / math.sqrt(ratio)))
    half, offset = np.array(halves), fields.get("offset", 0.5)
    across, down = fields.get("step", (width / columns, height / rows))
    y, x = np.meshgrid((np.arange(rows) + offset) * down, (np.arange(columns) + offset) * across, indexing="ij")
    centre = np.stack([x, y], axis=-1)[:, :, None]
    boxes = np.concatenate([centre - half, centre + half], axis=-1) / [width, height, width, height]
    boxes = (np.clip(boxes, 0, 1) if fields["clip"] else boxes).reshape(-1, 4)
    return np.concatenate([boxes, np.broadcast_to(np.resize(variances, 4), boxes.shape)], axis=1).astype(
        np.float32
    )
