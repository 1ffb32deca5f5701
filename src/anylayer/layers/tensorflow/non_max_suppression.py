"""Non-maximum suppression (NMS)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, need
from anylayer.layer.arguments import integer, number
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, results


def _selection(
    boxes: Array, scores: Array, limit: int, iou: float, threshold: float | None
) -> tuple[Array, Array]:
    """Return the indices of the kept boxes by descending score, padded with -1 to a static size; their number."""
    need(
        len(boxes.shape) == 2 and boxes.shape[1] == 4 and tuple(scores.shape) == (boxes.shape[0],),
        f"expected boxes (N, 4) and scores (N,), got {tuple(boxes.shape)} and {tuple(scores.shape)}",
    )
    need(limit >= 0, f"max_output_size must be 0 or more, got {limit}")
    need(0 <= iou <= 1, f"iou_threshold must lie in 0..1, got {iou}")
    selected, count = ops.nms(
        boxes[None],
        scores[None, None],
        max_per_class=max(limit, 1),
        iou_threshold=iou,
        score_threshold=None if threshold == -np.inf else threshold,
    )
    return selected[:, 2], count if limit else np.minimum(count, 0)


def _first(x: Array, count: Array, limit: int, padded: bool = False) -> Array:
    """Return the first `count` elements, of at most `limit`. If `padded`, return `limit` elements, ending in 0."""
    if limit and not padded:
        return ops.head(x, count)
    return np.pad(x, [(0, limit - x.shape[0])]) if limit > x.shape[0] else x[:limit]


def _indices(
    boxes: Array, scores: Array, max_output_size: int, iou_threshold: float, score_threshold: float | None = None
) -> Array:
    selected, count = _selection(boxes, scores, max_output_size, iou_threshold, score_threshold)
    return _first(selected, count, max_output_size).astype(np.int32)


def _with_scores(
    boxes: Array, scores: Array, max_output_size: int, iou_threshold: float, score_threshold: float,
    soft_nms_sigma: float, *, pad_to_max_output_size: bool,
) -> tuple[Array, Array, Array]:  # fmt: skip
    need(soft_nms_sigma == 0, "soft_nms_sigma must be 0: soft NMS is not supported")
    selected, count = _selection(boxes, scores, max_output_size, iou_threshold, score_threshold)
    indices = np.maximum(selected, 0)
    best = np.where(selected >= 0, ops.gather(scores, indices), np.zeros((), scores.dtype))
    indices, best = (_first(v, count, max_output_size, pad_to_max_output_size) for v in (indices, best))
    return indices.astype(np.int32), best, count.astype(np.int32)


def _with_count(
    boxes: Array, scores: Array, max_output_size: int, iou_threshold: float, score_threshold: float,
    *, pad_to_max_output_size: bool,
) -> tuple[Array, Array]:  # fmt: skip
    threshold, padded = score_threshold, pad_to_max_output_size
    indices, _, count = _with_scores(
        boxes, scores, max_output_size, iou_threshold, threshold, 0, pad_to_max_output_size=padded
    )
    return indices, count


_BEST = "Return the indices of the best boxes, none of which overlaps a better one by more than iou_threshold."
_CONSTANTS: Any = {"max_output_size": integer, "iou_threshold": number, "score_threshold": number}
_FILE = "image/non_max_suppression_op.cc"
_V3 = row(_BEST, _indices, _FILE,
    "Output: (K,) int32 with K <= max_output_size. iou_threshold is a constant, and in V3 also score_threshold: "
    "boxes whose score does not exceed it are left out.", **_CONSTANTS)  # fmt: skip

operators(
    TensorFlowLayer,
    "Inputs: boxes (N, 4), each given by two opposite corners (y1, x1, y2, x2); scores (N,); max_output_size, a\n"
    f"    constant. The best box is the first.\n    {SOURCE}{{}}.",
    {
        "NonMaxSuppression": row(_BEST,
            lambda boxes, scores, max_output_size, iou_threshold: _indices(
                boxes, scores, max_output_size, iou_threshold), _FILE,
            "Output: (K,) int32 with K <= max_output_size.",
            max_output_size=integer, iou_threshold=attribute("float", 0.5)),
        "NonMaxSuppressionV2": _V3,
        "NonMaxSuppressionV3": _V3,
        "NonMaxSuppressionV4": row("Return the indices of the best boxes, and their number.", _with_count, _FILE,
            "The inputs are those of NonMaxSuppressionV3. Outputs: selected_indices int32, (max_output_size,) "
            "with pad_to_max_output_size, which pads with zeros, else (K,); valid_outputs, the scalar K.",
            {"results": results("selected_indices", "valid_outputs")},
            pad_to_max_output_size=attribute("bool", False), **_CONSTANTS),
        "NonMaxSuppressionV5": row("Return the indices of the best boxes, their scores, and their number.",
            _with_scores, _FILE,
            "The inputs are those of NonMaxSuppressionV3, and soft_nms_sigma, which must be 0: scores are not "
            "reduced. Outputs: those of NonMaxSuppressionV4, and between them selected_scores.",
            {"results": results("selected_indices", "selected_scores", "valid_outputs")},
            soft_nms_sigma=number, pad_to_max_output_size=attribute("bool", False), **_CONSTANTS),
    },
)  # fmt: skip
