"""Prior boxes, detections, and functions of boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Node, attribute, layer, need, need_shape
from anylayer.layer.arguments import same
from anylayer.layers._detections import LOWEST, among_best, below, best_first, corners, marked_by_nms, overlaps
from anylayer.layers._resampling import plane_of
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, MXNetLayer, need_float32, operators

MAX_BOXES_OF_CLASSES = 1 << 12  # boxes of an image that enter an NMS within classes whose number is not known
_zero, _one, _half = np.float32(0), np.float32(1), np.float32(0.5)


def _priors(
    x: Array, sizes: Sequence[float], ratios: Sequence[float], clip: bool, steps: Sequence[float],
    offsets: Sequence[float], *, note: Callable[[str], None],
) -> Array:  # fmt: skip
    h, w = plane_of(x)
    need(sizes and ratios and min(ratios) > 0, "needs sizes and positive ratios, at least one of each")
    need(len(steps) == len(offsets) == 2, "steps and offsets must be two numbers each")
    need((steps[0] > 0) == (steps[1] > 0), f"steps must both be positive, or both negative, got {tuple(steps)}")
    if ratios[0] != 1:
        note(f"the first ratio, {ratios[0]:g}, applies to all sizes, as since MXNet 1.5; before, it was not read")
    roots = np.sqrt(np.array([ratios[0]] * len(sizes) + [*ratios[1:]], np.float32))
    sides = np.array([*sizes] + [sizes[0]] * (len(ratios) - 1), np.float32)
    half_width, half_height = sides * h / np.float32(w) * roots * _half, sides / roots * _half
    y, x = (
        (np.arange(n, dtype=np.float32) + np.float32(offset)) * (np.float32(s) if s > 0 else _one / np.float32(n))
        for n, offset, s in zip((h, w), offsets, steps)
    )
    shape = (h, w, len(sides))
    y, x = np.broadcast_to(y[:, None, None], shape), np.broadcast_to(x[:, None], shape)
    edges = [x - half_width, y - half_height, x + half_width, y + half_height]
    boxes: Array = np.stack(edges, axis=-1).reshape(1, -1, 4)
    return np.clip(boxes, _zero, _one) if clip else boxes


def _gather(table: Array, index: Array) -> Array:
    """Return rows of each image: (N, K, W) for a table (N, P, W) and indices (N, K)."""
    n, p, width = table.shape
    return table.reshape(n * p, width)[np.arange(n)[:, None] * p + index]


def _centres(boxes: Array) -> Array:
    """Return centers, widths and heights of boxes (..., 4)."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([(low + high) * _half, high - low], axis=-1)


def _decode(codes: Array, anchors: Array, format: str, factors: Sequence[float], clip: float = 0.0) -> Array:
    """Return the corners of boxes (N, P, 4) that are encoded relative to the anchors (1, P, 4)."""
    need_shape(anchors, (1, codes.shape[1], 4), "the anchors")
    anchors = _centres(anchors) if format == "corner" else anchors
    scaled, size = codes * np.array(factors, np.float32), anchors[..., 2:]
    growth = np.minimum(scaled[..., 2:], np.float32(clip)) if clip > 0 else scaled[..., 2:]
    return corners(scaled[..., :2] * size + anchors[..., :2], np.exp(growth) * size)


def _detections(
    probabilities: Array, locations: Array, anchors: Array, clip: bool, threshold: float, background_id: int,
    nms_threshold: float, force_suppress: bool, variances: Sequence[float], nms_topk: int,
) -> Array:  # fmt: skip
    need_shape(probabilities, ("N", "C", "P"), "cls_prob")
    n, classes, p = probabilities.shape
    need(classes >= 2, f"needs a class besides the background, got {classes} classes")
    need(len(variances) == 4, f"variances must be 4 numbers, got {len(variances)}")
    need_shape(locations, (n, p * 4), "loc_pred")
    boxes = _decode(locations.reshape(n, p, 4), anchors, "corner", variances)
    boxes = np.clip(boxes, _zero, _one) if clip else boxes
    score, label = probabilities[:, 1:].max(axis=1), probabilities[:, 1:].argmax(axis=1)
    valid = (score >= np.float32(threshold)) & (score > -_one)
    place, limit, rank = np.arange(p), p, np.where(valid, score, LOWEST)
    _, order = ops.top_k(valid.astype(np.float32), p)
    column = label.astype(np.float32)
    if 0 < nms_threshold <= 1:
        limit = min(nms_topk, p) if nms_topk > 0 else p
        order = np.where(place < limit, ops.top_k(rank, p)[1], order)
        scores = np.where(among_best(rank, limit), rank, LOWEST)[:, None]
        if not force_suppress:
            scores = np.where(np.arange(classes - 1)[:, None] == label[:, None], scores, LOWEST)
        column = np.where(marked_by_nms(boxes, scores, below(nms_threshold)), column, -_one)
    rows = _gather(np.concatenate([np.stack([column, score], axis=-1), boxes], axis=-1), order)
    if not same(limit, p):  # the rows after the best ones are those of the boxes at these places, without a label
        label = np.where((place < limit)[:, None], rows[..., :1], -_one)
        rows = np.concatenate([label, rows[..., 1:]], axis=-1)
    return np.where((place < valid.sum(axis=1, keepdims=True))[..., None], rows, -_one)


def _box_nms(
    data: Array, overlap_thresh: float, valid_thresh: float, topk: int, coord_start: int, score_index: int,
    id_index: int, background_id: int, force_suppress: bool, in_format: str, out_format: str,
) -> Array:  # fmt: skip
    need(len(data.shape) >= 2, f"takes rows of boxes (..., P, W), got shape {tuple(data.shape)}")
    p, width = data.shape[-2:]
    columns = [*range(coord_start, coord_start + 4), score_index, *([id_index] if id_index >= 0 else [])]
    need(
        min(columns) >= 0 and max(columns) < width and len({*columns}) == len(columns),
        f"coord_start={coord_start} (4 numbers), score_index={score_index} and id_index={id_index} must be "
        f"different columns of the {width}",
    )
    if topk == 0:
        return data
    k = p if topk < 0 else min(topk, p)
    table = data.reshape(-1, p, width)
    valid = table[..., score_index] > np.float32(valid_thresh)
    if id_index >= 0:
        valid = valid & (table[..., id_index] != np.float32(background_id))
    order, number = best_first(np.where(valid, table[..., score_index], LOWEST), k)
    rows, place, at = _gather(table, order), np.arange(k), slice(coord_start, coord_start + 4)
    scores = np.where(place < number, rows[..., score_index], LOWEST)[:, None]
    if id_index >= 0 and not force_suppress:
        limit = MAX_BOXES_OF_CLASSES
        need(k <= limit, f"topk={topk} lets {k} boxes into the NMS within classes, at most {limit} are supported")
        label = np.trunc(rows[..., id_index])
        first = (label[:, :, None] == label[:, None]).argmax(axis=-1)  # the best box of the same class
        scores = np.where(place[:, None] == first[:, None], scores, LOWEST)
    boxes = rows[..., at]
    by_corners = corners(boxes[..., :2], boxes[..., 2:]) if in_format == "center" else boxes
    survives = marked_by_nms(by_corners, scores, overlap_thresh)
    rows = _gather(rows, ops.top_k(survives.astype(np.float32), k)[1])
    rows = np.where((place < survives.sum(axis=1, keepdims=True))[..., None], rows, -_one)
    if in_format != out_format:
        boxes = rows[..., at]
        other = corners(boxes[..., :2], boxes[..., 2:]) if in_format == "center" else _centres(boxes)
        other = np.where(boxes[..., :1] < 0, boxes, other)  # MXNet leaves boxes that begin left of 0 as they are
        rows = np.concatenate([rows[..., :coord_start], other, rows[..., coord_start + 4 :]], axis=-1)
    if not same(k, p):
        rows = np.concatenate([rows, np.full((table.shape[0], p - k, width), -_one)], axis=1)
    return rows.reshape(data.shape)


def _box_iou(a: Array, b: Array, format: str) -> Array:
    for x in (a, b):
        need(len(x.shape) >= 2 and x.shape[-1] == 4, f"takes boxes (..., 4), got shape {tuple(x.shape)}")
    first, second = (
        corners(x[..., :2], x[..., 2:]) if format == "center" else x
        for x in (a.reshape(-1, 1, 4), b.reshape(1, -1, 4))
    )
    return overlaps(first, second).reshape(*a.shape[:-1], *b.shape[:-1])


def _box_decode(x: Array, anchors: Array, clip: float, format: str, **std: float) -> Array:
    need_shape(x, ("N", "P", 4), "data")
    return _decode(x, anchors, format, [*std.values()], clip)


@layer("_contrib_MultiBoxTarget")
class MultiBoxTarget(MXNetLayer):
    """Refuse the targets of SSD's training, which the loss of a training network reads.

    Source: src/operator/contrib/multibox_target.cc of MXNet.
    """

    def prepare(self, node: Node, dialect: str | None) -> None:
        need(
            False,
            "the targets of training are not supported; export the symbol for deployment, without the losses, or "
            "choose the outputs of detections only",
        )


_INT, _FORMAT = attribute("int32", -1), Enum("corner", "center")
operators(
    {
        "_contrib_MultiBoxPrior _npx_multibox_prior": row(
            "Return the prior boxes of every cell of a feature map (SSD, arXiv 1512.02325).", _priors,
            "contrib/multibox_prior.cc",
            "(N, C, H, W) to corners (1, H * W * A, 4), relative to the image, with A = len(sizes) + len(ratios) "
            "- 1: boxes of every size with the first ratio (width over height), then of the first size with the "
            "others. A square of size 1 is as high as the image.",
            sizes=attribute("float", (1.0,), repeated=True), ratios=attribute("float", (1.0,), repeated=True),
            clip=FLAG, offsets=attribute("float", (0.5, 0.5), repeated=True),
            steps=attribute("float", (-1.0, -1.0), repeated=True, doc="down and across; negative: one cell")),
        "_contrib_MultiBoxDetection _npx_multibox_detection": row(
            "Decode boxes and drop those that overlap a better one (SSD, arXiv 1512.02325).", _detections,
            "contrib/multibox_detection.cc",
            "cls_prob (N, C, P), whose class 0 is the background, loc_pred (N, P * 4) and anchor (1, P, 4) to "
            "rows [label, score, x1, y1, x2, y2] (N, P, 6), best first, with labels from 0. A box that is dropped "
            "has the label -1, and rows without a box are -1. A box is dropped if its overlap with a better one "
            "of its class, or with force_suppress of any class, reaches nms_threshold, and if nms_topk boxes are "
            "better. An nms_threshold outside (0, 1] neither drops nor sorts boxes. background_id has no effect, "
            "as in MXNet.",
            clip=attribute("bool", True), threshold=attribute("float", 0.01), background_id=attribute("int32", 0),
            nms_threshold=attribute("float", 0.5), force_suppress=FLAG, nms_topk=_INT,
            variances=attribute("float", (0.1, 0.1, 0.2, 0.2), repeated=True)),
        "_contrib_box_nms _contrib_box_non_maximum_suppression": row(
            "Drop boxes that overlap a better one.", _box_nms, "contrib/bounding_box.cc",
            "Rows of numbers (..., P, W) to the same shape: the rows that remain, best first, then rows of -1. Of "
            "the rows with a score above valid_thresh the topk best take part. With id_index only boxes of one "
            "class drop each other, unless force_suppress, and boxes of class background_id do not remain.",
            overlap_thresh=attribute("float", 0.5), valid_thresh=attribute("float", 0.0), topk=_INT,
            coord_start=attribute("int32", 2), score_index=attribute("int32", 1), id_index=_INT,
            background_id=_INT, force_suppress=FLAG, in_format=attribute(_FORMAT, "corner"),
            out_format=attribute(_FORMAT, "corner")),
        "_contrib_box_iou": row("Compute the intersection over union of each pair of boxes.", _box_iou,
            "contrib/bounding_box.cc",
            "Boxes (..., 4) and (..., 4) to the shape of both without their last axes.",
            format=attribute(_FORMAT, "corner")),
        "_contrib_box_decode": row("Return the corners of boxes that are encoded relative to anchors.",
            _box_decode, "contrib/bounding_box.cc",
            "Codes (N, P, 4) and anchors (1, P, 4), in `format`, to corners (N, P, 4).",
            **{f"std{i}": attribute("float", 1.0) for i in range(4)}, clip=attribute("float", -1.0),
            format=attribute(_FORMAT, "center")),
    },
    check=need_float32,
)  # fmt: skip
