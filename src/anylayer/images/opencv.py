"""Functions of cv2 in NumPy and anylayer's operators, which the tracer calls in place of cv2's for traced arrays.

Images are (H, W) or (H, W, C), as in OpenCV. As there, a result with one channel has no channel axis.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import LayerError, need
from anylayer.graph.intervals import Intervals
from anylayer.images.preprocess import to_gray
from anylayer.images.resize import resize as resize_linear
from anylayer.network import Array, Function
from anylayer.tracing.loop_operator import record_loop
from anylayer.tracing.record import running_graph, value_of

_NEAREST, _LINEAR, _CUBIC = 0, 1, 2
_BORDERS = {0: "constant", 1: "edge", 2: "symmetric", 3: "wrap", 4: "reflect"}
"""The values of BorderTypes, and the modes of np.pad."""
_INVERSE_MAP, _MINMAX = 16, 32
_DEPTHS = (-1, 0, 5)
"""The depths of a normalized float32 image: its own, CV_8U and CV_32F."""
_CHANNELS = {0: (0, 1, 2, 3), 1: (0, 1, 2), 2: (2, 1, 0, 3), 3: (2, 1, 0), 4: (2, 1, 0), 5: (2, 1, 0, 3)}
"""Codes of cvtColor that select channels. Channel 3 of an image without alpha is its largest value."""
_GRAY_FROM = {6: (3, 1), 7: (3, -1), 10: (4, 1), 11: (4, -1)}
"""Codes of cvtColor to gray: the number of channels, and the step from blue to red."""
_TO_COLORS = {8: 3, 9: 4}
"""Codes of cvtColor from gray, and the number of channels."""
_MAX_CLASSES = 1000
"""The largest number of classes of NMSBoxesBatched, for each of which all boxes are compared."""


def resize(
    src: Array, dsize: Any, dst: None = None, fx: float = 0, fy: float = 0, interpolation: int = _LINEAR
) -> Array:
    """Return cv2.resize. INTER_LINEAR of uint8 and INTER_NEAREST are exact, float32 to 1e-6."""
    image = _image(src, dst)
    height, width = image.shape[:2]
    factor = None
    if dsize is None or not any(map(operator.index, dsize)):
        need(fx > 0 and fy > 0, "cv2.resize needs dsize, or fx and fy", LayerError)
        need(fx == fy, "cv2.resize with fx other than fy cannot be recorded; pass dsize", LayerError)
        size, factor = (round(height * fy), round(width * fx)), float(fx)
    else:
        size = operator.index(dsize[1]), operator.index(dsize[0])
    if interpolation == _NEAREST:
        rows, columns = (_nearest(n, m, factor) for n, m in zip((height, width), size))
        return _flat(image[rows][:, columns])
    if interpolation == _LINEAR:
        _need_dtype("cv2.resize", image, np.uint8, np.float32)
        return _flat(resize_linear(image, size, factor))
    need(
        interpolation == _CUBIC,
        f"cv2.resize with interpolation {interpolation} cannot be recorded; INTER_LINEAR, INTER_NEAREST and "
        "INTER_CUBIC can",
        LayerError,
    )
    _need_dtype("cv2.resize with INTER_CUBIC", image, np.float32)
    rows, columns = (_cubic(n, m, factor) for n, m in zip((height, width), size))
    resized: Array = np.einsum("yh,hwc,xw->yxc", rows, image, columns)
    return _flat(resized)


def _nearest(source: int, target: int, factor: float | None) -> Array:
    """Return the index of the source pixel of each target pixel."""
    step = 1 / factor if factor else source / target
    return np.minimum(np.floor(np.arange(target) * step).astype(np.int64), source - 1)


def _cubic(source: int, target: int, factor: float | None) -> Array:
    """Return the weights (target, source) of OpenCV's cubic interpolation, A = -0.75."""
    step = 1 / factor if factor else source / target
    position = ((np.arange(target) + 0.5) * step - 0.5).astype(np.float32)
    first = np.floor(position)
    x, a = position - first, np.float32(-0.75)
    outer = ((a * (x + 1) - 5 * a) * (x + 1) + 8 * a) * (x + 1) - 4 * a
    left, right = (((a + 2) * d - (a + 3)) * d * d + 1 for d in (x, 1 - x))
    matrix = np.zeros((target, source), np.float32)
    for i, weight in enumerate((outer, left, right, 1 - outer - left - right)):
        places = np.clip(first.astype(np.int64) - 1 + i, 0, source - 1)
        np.add.at(matrix, (np.arange(target), places), weight)
    return matrix


def cvtColor(src: Array, code: int, dst: None = None, dstCn: int = 0) -> Array:
    """Return cv2.cvtColor between BGR, RGB, BGRA, RGBA and gray. Of uint8 it is exact, of float32 to 1e-7."""
    image = _image(src, dst)
    _need_dtype("cv2.cvtColor", image, np.uint8, np.float32)
    channels = image.shape[2]
    if code in _TO_COLORS and channels == 1:
        count = _TO_COLORS[code]
        return _with_alpha(np.concatenate([image] * 3, axis=2)) if count == 4 else np.concatenate([image] * 3, 2)
    if code in _GRAY_FROM and channels == _GRAY_FROM[code][0]:
        colors = image[:, :, :3][:, :, :: _GRAY_FROM[code][1]]
        if image.dtype == np.uint8:
            return _flat(to_gray(colors))
        return colors @ np.array([0.114, 0.587, 0.299], np.float32)
    if code in _CHANNELS and channels == (3 if code in (0, 2, 4) else 4):
        order = list(_CHANNELS[code])
        return (_with_alpha(image) if channels < len(order) else image)[:, :, order]
    raise LayerError(
        f"cv2.cvtColor with code {code} of {channels} channels cannot be recorded; conversions between BGR, RGB, "
        "BGRA, RGBA and gray can"
    )


def _with_alpha(image: Array) -> Array:
    most = 255 if image.dtype == np.uint8 else 1
    return np.concatenate([image, np.full((*image.shape[:2], 1), most, image.dtype)], axis=2)


def copyMakeBorder(
    src: Array, top: int, bottom: int, left: int, right: int, borderType: int, dst: None = None, value: Any = 0
) -> Array:
    """Return cv2.copyMakeBorder, exactly."""
    image = _image(src, dst)
    mode = _BORDERS.get(borderType & ~16)
    need(mode, f"cv2.copyMakeBorder with borderType {borderType} cannot be recorded", LayerError)
    widths = [(top, bottom), (left, right), (0, 0)]
    if mode != "constant":
        return _flat(np.pad(image, widths, mode))  # type: ignore[call-overload]  # mode is one of NumPy's
    colors = _scalar(value, image)
    if len({*colors}) == 1:
        return _flat(np.pad(image, widths, constant_values=colors[0]))
    channels = [np.pad(image[:, :, i], widths[:2], constant_values=c) for i, c in enumerate(colors)]
    return np.stack(channels, axis=2)


def _scalar(value: Any, image: Array) -> list[Any]:
    """Return the value of each channel: one number is the value of the first, as in cv::Scalar."""
    numbers = list(np.ravel(value)) + [0] * 4
    colors = np.asarray(numbers[: image.shape[2]])
    if image.dtype == np.uint8:
        colors = np.clip(np.rint(colors), 0, 255)
    return list(colors.astype(image.dtype))


def warpAffine(
    src: Array,
    M: Any,
    dsize: Any,
    dst: None = None,
    flags: int = _LINEAR,
    borderMode: int = 0,
    borderValue: Any = 0,
) -> Array:
    """Return cv2.warpAffine of OpenCV 5 with INTER_LINEAR. Of uint8 it is exact, of float32 to 1e-5.

    OpenCV 4, and OpenCV 5 for 2 channels, round positions to 1/32 of a pixel.
    """
    image = _image(src, dst)
    _need_dtype("cv2.warpAffine", image, np.uint8, np.float32)
    need(
        flags & ~_INVERSE_MAP == _LINEAR and borderMode in (0, 1) and image.shape[2] != 2,
        "cv2.warpAffine can be recorded with INTER_LINEAR and BORDER_CONSTANT or BORDER_REPLICATE, for 1, 3 and 4 "
        "channels",
        LayerError,
    )
    matrix = M.astype(np.float64)
    a, b, c, d, e, f = (matrix[i, j] for i in (0, 1) for j in (0, 1, 2))
    if not flags & _INVERSE_MAP:
        scale = 1 / (a * e - b * d)
        a, b, d, e = e * scale, -b * scale, -d * scale, a * scale
        c, f = -a * c - b * f, -d * c - e * f
    width, height = map(operator.index, dsize)
    columns, rows = (np.arange(n).astype(np.float32) for n in (width, height))
    x, y = (
        p.astype(np.float32) * columns[None, :] + q.astype(np.float32) * rows[:, None] + r.astype(np.float32)
        for p, q, r in ((a, b, c), (d, e, f))
    )
    left, top = np.floor(x), np.floor(y)
    fx, fy = (x - left)[:, :, None], (y - top)[:, :, None]
    limits = [n - 1 for n in image.shape[:2]]
    colors = np.array(_scalar(borderValue, image), np.float32)

    def taps(down: int, right: int) -> Array:
        i, j = top + down, left + right
        inside = (i >= 0) & (i <= limits[0]) & (j >= 0) & (j <= limits[1])
        i, j = (np.clip(p, 0, n).astype(np.int64) for p, n in zip((i, j), limits))
        pixels: Array = image[i, j].astype(np.float32)
        return pixels if borderMode else np.where(inside[:, :, None], pixels, colors)

    upper, lower = (taps(k, 0) + fx * (taps(k, 1) - taps(k, 0)) for k in (0, 1))
    result = upper + fy * (lower - upper)
    return _flat(result if image.dtype == np.float32 else np.clip(np.rint(result), 0, 255).astype(np.uint8))


def NMSBoxes(
    bboxes: Array, scores: Array, score_threshold: float, nms_threshold: float, eta: float = 1, top_k: int = 0
) -> Array:
    """Return cv2.dnn.NMSBoxes: the indices of boxes (x, y, width, height), best first."""
    return NMSBoxesBatched(bboxes, scores, np.zeros(1, np.int64), score_threshold, nms_threshold, eta, top_k)


def NMSBoxesBatched(
    bboxes: Array,
    scores: Array,
    class_ids: Array,
    score_threshold: float,
    nms_threshold: float,
    eta: float = 1,
    top_k: int = 0,
) -> Array:
    """Return cv2.dnn.NMSBoxesBatched: NMSBoxes of which only boxes of one class suppress each other.

    In OpenCV, two boxes whose areas add to 0 or less overlap, and boxes with negative positions may overlap those
    of other classes. Where there are such boxes, a loop compares each box with the better ones.
    """
    need(eta == 1, "cv2.dnn.NMSBoxes with eta other than 1 cannot be recorded", LayerError)
    boxes, confidences = np.reshape(bboxes, (-1, 4)), np.reshape(scores, (-1,)).astype(np.float32)
    farthest = np.maximum(np.maximum(boxes[:, :2], boxes[:, :2] + boxes[:, 2:]).max(), 0)
    order = np.argsort(-confidences, kind="stable")
    if top_k > 0:
        order = order[:top_k]
    boxes, confidences, count = boxes[order], confidences[order], order.shape[0]
    area = boxes[:, 2] * boxes[:, 3]
    chosen = confidences > np.float32(score_threshold)
    size = np.where(np.min(boxes[:, 2:], axis=1, keepdims=True) > 0, boxes[:, 2:], 0)
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + size], axis=1).astype(np.float32)
    classes = np.reshape(class_ids, (-1,)).astype(np.int64)
    first, last = _class_range(classes)
    of_class, is_special, low = confidences[None], area <= 0, boxes[:, :2].astype(np.float64)
    if first < last:
        classes = classes[order]
        of_class = np.where(classes == np.arange(first, last + 1)[:, None], of_class, np.float32(-np.inf))
        outside = np.maximum(np.minimum(boxes[:, :2] + size, -1) - boxes[:, :2], 0)
        is_special = is_special | (outside[:, 0] * outside[:, 1] > nms_threshold * area)
        low = low + classes[:, None] * (farthest + 1)
    selected, _ = ops.nms(
        corners[None],
        of_class[None],
        max_per_class=count,
        iou_threshold=float(nms_threshold),
        score_threshold=float(score_threshold),
    )
    places = np.where(selected[:, 2] < 0, count, selected[:, 2])
    chosen_places = np.zeros_like(confidences, bool, shape=(count + 1,))
    chosen_places[places] = True
    steps = np.where((is_special & chosen).any(), chosen.astype(np.int64).sum(), 0)
    limit = np.float32(nms_threshold)

    def step(arrays: list[Array]) -> list[Array]:
        i, go, mask, start, end, areas = arrays
        sides = np.minimum(end[i], end) - np.maximum(start[i], start)
        shared = np.where((sides > 0).all(axis=1), sides[:, 0] * sides[:, 1], 0.0)
        both = areas[i] + areas
        distance = np.where(both <= np.finfo(np.float64).eps, 0.0, 1 - shared / (both - shared))
        overlaps = np.float32(1) - distance.astype(np.float32) > limit
        return [go, np.where(np.arange(count) == i, ~(overlaps & mask).any(), mask)]

    others = [low, low + boxes[:, 2:], area.astype(np.float64)]
    (compared,) = record_loop(step, steps, True, [np.zeros(count, bool)], others, count)
    return order[np.where(steps > 0, compared, chosen_places[:count])].astype(np.int32)


def _class_range(classes: Array) -> tuple[int, int]:
    """Return the smallest and the largest class that there may be."""
    low, high = Intervals(running_graph().producers).of(value_of(classes))
    need(
        high - low < _MAX_CLASSES,
        f"cv2.dnn.NMSBoxesBatched is recorded for at most {_MAX_CLASSES} classes, and these class_ids may be any "
        "number; write np.clip(class_ids, 0, 79) with the last class, or use np.argmax(scores, axis=1)",
        LayerError,
    )
    return int(low), int(high)


def normalize(
    src: Array,
    dst: None = None,
    alpha: float = 1,
    beta: float = 0,
    norm_type: int = 4,
    dtype: int = -1,
    mask: None = None,
) -> Array:
    """Return cv2.normalize of float32 with NORM_MINMAX. Of a constant image it is the lower limit."""
    _need_dtype("cv2.normalize", src, np.float32)
    need(
        dst is None and mask is None and norm_type == _MINMAX and dtype in _DEPTHS,
        "cv2.normalize can be recorded with NORM_MINMAX to CV_8U or CV_32F, without dst= and mask=",
        LayerError,
    )
    low, high = src.min().astype(np.float64), src.max().astype(np.float64)
    smallest, largest = float(min(alpha, beta)), float(max(alpha, beta))
    varies = high - low > np.finfo(np.float64).eps
    scale = (largest - smallest) * np.where(varies, 1 / np.where(varies, high - low, 1.0), 0.0)
    if dtype != 0:
        scale = scale.astype(np.float32).astype(np.float64)
        shift = np.float32(smallest) - (low * scale).astype(np.float32)
    else:
        shift = (smallest - low * scale).astype(np.float32)
    # a fused multiplication and addition of float32
    exact = src.astype(np.float64) * scale.astype(np.float32).astype(np.float64) + shift.astype(np.float64)
    result: Array = exact.astype(np.float32)
    return result if dtype != 0 else np.clip(np.rint(result), 0, 255).astype(np.uint8)


def threshold(src: Array, thresh: float, maxval: float, type: int, dst: None = None) -> tuple[float, Array]:
    """Return cv2.threshold without THRESH_OTSU and THRESH_TRIANGLE, which is exact."""
    _need_dtype("cv2.threshold", src, np.uint8, np.float32)
    need(
        dst is None and type in range(5),
        f"cv2.threshold with type {type} or dst= cannot be recorded; THRESH_BINARY, TRUNC, TOZERO and their "
        "inverses can",
        LayerError,
    )
    limit, largest = float(thresh), float(maxval)
    if src.dtype == np.uint8:
        limit, largest = float(np.floor(limit)), float(np.clip(np.rint(largest), 0, 255))
    x = src.astype(np.float32)
    above = x > np.float32(limit)
    zero, most = np.float32(0), np.float32(largest)
    kinds: list[tuple[Any, Any]] = [(most, zero), (zero, most), (np.float32(limit), x), (x, zero), (zero, x)]
    return limit, np.where(above, *kinds[type]).astype(src.dtype)


def _image(src: Array, dst: None) -> Array:
    """Return an image as (H, W, C)."""
    need(dst is None, "an OpenCV function with dst= cannot be recorded; use the array that it returns", LayerError)
    need(src.ndim in (2, 3), f"an image has 2 or 3 axes, got shape {tuple(src.shape)}", LayerError)
    return src if src.ndim == 3 else src[:, :, None]


def _flat(image: Array) -> Array:
    return image[:, :, 0] if image.shape[2] == 1 else image


def _need_dtype(what: str, image: Array, *dtypes: Any) -> None:
    names = " and ".join(np.dtype(d).name for d in dtypes)
    need(image.dtype in dtypes, f"{what} of {image.dtype} cannot be recorded; {names} can", LayerError)


FUNCTIONS: Mapping[str, Function] = {
    "resize": resize,
    "cvtColor": cvtColor,
    "copyMakeBorder": copyMakeBorder,
    "warpAffine": warpAffine,
    "dnn.NMSBoxes": NMSBoxes,
    "dnn.NMSBoxesBatched": NMSBoxesBatched,
    "merge": lambda mv: np.stack(list(mv), axis=-1),
    "normalize": normalize,
    "split": lambda m: tuple(np.moveaxis(m, 2, 0)) if m.ndim == 3 else (m,),
    "threshold": threshold,
}
"""cv2's names of the functions."""
