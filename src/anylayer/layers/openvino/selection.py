"""TopK, non-maximum suppression, and the positions of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, layer, need
from anylayer.layer.arguments import axis_of, integer, number
from anylayer.layers._detections import corners
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer, dtype_of


@layer("NonMaxSuppression")
class NonMaxSuppression(OpenVINOLayer):
    """Keep the best boxes of each class, none of which overlaps a better one by more than a threshold.

    Inputs: boxes (N, P, 4), scores (N, classes, P), then constants: the number of boxes per class, the thresholds
    of overlap and score. Outputs: rows (batch, class, box), sorted by descending score with
    sort_result_descending; from opset5 on also rows (batch, class, score) and the number of rows.
    Source: OpenVINO operation specification, NonMaxSuppression-1 to NonMaxSuppression-9.
    """

    box_encoding: str = attribute(Enum("corner", "center"), "corner")
    sort_result_descending: bool = attribute("bool", True)
    output_type: str = attribute("string", "i64")

    def forward(
        self,
        boxes: Array,
        scores: Array,
        limit: Array | None = None,
        iou: Array | None = None,
        score: Array | None = None,
        sigma: Array | None = None,
    ) -> Any:
        need(sigma is None or number(sigma, "soft_nms_sigma") == 0, "soft_nms_sigma other than 0 is not supported")
        count = 0 if limit is None else max(0, min(integer(limit, "max_output_boxes_per_class"), boxes.shape[1]))
        threshold = 0.0 if iou is None else min(number(iou, "iou_threshold"), 1.0)  # an overlap is at most 1
        lowest = 0.0 if score is None else number(score, "score_threshold")
        dtype = dtype_of(self.output_type, "output_type")
        if self.box_encoding == "center":
            boxes = corners(boxes[..., :2], boxes[..., 2:])
        need(count > 0, "max_output_boxes_per_class must be positive, got 0")
        chosen, real = ops.nms(boxes, scores, max_per_class=count, iou_threshold=threshold, score_threshold=lowest)
        best = self.scores(scores, chosen)
        if self.sort_result_descending:
            rows = chosen.shape[0]
            there = np.arange(rows) < real
            _, order = ops.top_k(np.where(there, best, best.dtype.type(-np.inf)), rows)
            chosen, best = ops.gather(chosen, order), ops.gather(best, order)
        if self.opset < 5:
            return chosen.astype(dtype)
        columns = [np.expand_dims(chosen[:, i].astype(best.dtype), 1) for i in (0, 1)]
        table = np.concatenate([*columns, np.expand_dims(best, 1)], axis=1)
        results = [ops.head(chosen, real).astype(dtype), ops.head(table, real), real.reshape(1).astype(dtype)]
        return results[: self.outputs]

    def scores(self, scores: Array, chosen: Array) -> Array:
        """Return the score of each selected row."""
        _, c, n = scores.shape
        at = np.maximum(chosen, 0)
        return ops.gather(scores.reshape(-1), (at[:, 0] * c + at[:, 1]) * n + at[:, 2])


def _top_k(
    x: Array, k: int, axis: int, mode: str, sort: str, index_element_type: str, *, outputs: int, **_: Any
) -> Any:
    axis = axis_of(axis, len(x.shape))
    values, indices = ops.top_k(x, k, axis=axis, largest=mode == "max")
    if sort == "index":
        indices = np.sort(indices, axis=axis)
        values = ops.gather_elements(x, indices, axis=axis)
    return (values, indices.astype(dtype_of(index_element_type, "index_element_type")))[:outputs]


operators(
    OpenVINOLayer,
    SPECIFICATION,
    {
        "TopK": row("Return the k largest or smallest elements along an axis, and their indices.", _top_k,
            "TopK-1, TopK-3 and TopK-11",
            "Axis `axis` of both outputs has size k, a constant. Of equal elements the first comes first. `sort` "
            "orders the result by value or by index.",
            k=integer, axis=attribute("int64"), mode=attribute(Enum("max", "min")),
            sort=attribute(Enum("value", "index", "none"), "value"), index_element_type=attribute("string", "i32"),
            stable=attribute("bool", False)),
        "NonZero": row("Return the positions of the elements that are not 0, one row per axis.",
            lambda x, output_type: np.stack(np.nonzero(x)).astype(dtype_of(output_type, "output_type")),
            "NonZero-3", output_type=attribute("string", "i64", doc="dtype of the positions: i32 or i64")),
    },
)  # fmt: skip
