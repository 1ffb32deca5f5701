"""Non-maximum suppression (NMS)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import TensorFlowLayer, attribute, constant, integer, layer, need
from anylayer.network import Array


def _number(x: Array, what: str) -> float:
    """Return the number of a constant input with one element."""
    value = constant(x, what)
    need(value.size == 1, f"{what} must be one number, got {value.size}")
    return float(value.reshape(-1)[0])


class _Suppression(TensorFlowLayer):
    """NMS of boxes (N, 4), each given by two opposite corners (y1, x1, y2, x2), by their scores (N,)."""

    def keep(
        self, boxes: Array, scores: Array, max_size: Array, iou: float, threshold: float | None
    ) -> tuple[Array, Array, int]:
        """Return the indices of the boxes that are kept, their number, and max_output_size.

        The indices are sorted by descending score and padded with -1 to a static size.
        """
        need(
            len(boxes.shape) == 2 and boxes.shape[1] == 4 and tuple(scores.shape) == (boxes.shape[0],),
            f"expected boxes (N, 4) and scores (N,), got {tuple(boxes.shape)} and {tuple(scores.shape)}",
        )
        limit = integer(max_size, "max_output_size")
        need(limit >= 0, f"max_output_size must be 0 or more, got {limit}")
        need(0 <= iou <= 1, f"iou_threshold must lie in 0..1, got {iou}")
        if threshold is not None and threshold == -np.inf:
            threshold = None
        selected, count = ops.nms(
            boxes[None],
            scores[None, None],
            max_per_class=max(limit, 1),
            iou_threshold=iou,
            score_threshold=threshold,
        )
        return selected[:, 2], count, limit


@layer("NonMaxSuppression")
class NonMaxSuppression(_Suppression):
    """Return the indices of the best boxes, none of which overlaps a better one by more than iou_threshold.

    Inputs: boxes (N, 4), each given by two opposite corners (y1, x1, y2, x2); scores (N,); max_output_size, a
    constant. Output: (K,) int32 with K <= max_output_size, best first.
    Source: tf.raw_ops.NonMaxSuppression; tensorflow/core/kernels/image/non_max_suppression_op.cc.
    """

    iou_threshold: float = attribute("float", 0.5)

    def forward(self, boxes: Array, scores: Array, max_size: Array) -> Array:
        selected, count, limit = self.keep(boxes, scores, max_size, self.iou_threshold, None)
        return ops.head(selected, count).astype(np.int32) if limit else np.zeros(0, np.int32)


@layer("NonMaxSuppressionV2")
@layer("NonMaxSuppressionV3")
class NonMaxSuppressionV3(_Suppression):
    """Return the indices of the best boxes, none of which overlaps a better one by more than iou_threshold.

    Inputs: boxes (N, 4), each given by two opposite corners (y1, x1, y2, x2); scores (N,); max_output_size, a
    constant; iou_threshold, a constant; V3 also score_threshold, a constant: boxes whose score does not exceed it
    are left out. Output: (K,) int32 with K <= max_output_size, best first.
    Source: tf.raw_ops.NonMaxSuppressionV2, NonMaxSuppressionV3;
    tensorflow/core/kernels/image/non_max_suppression_op.cc.
    """

    def forward(
        self, boxes: Array, scores: Array, max_size: Array, iou: Array, threshold: Array | None = None
    ) -> Array:
        low = _number(threshold, "score_threshold") if threshold is not None else None
        selected, count, limit = self.keep(boxes, scores, max_size, _number(iou, "iou_threshold"), low)
        return ops.head(selected, count).astype(np.int32) if limit else np.zeros(0, np.int32)


class _PaddedNMS(_Suppression):
    """NMS whose output may be padded to max_output_size."""

    pad_to_max_output_size: bool = attribute("bool", False)

    def pad_indices(self, selected: Array, count: Array, limit: int) -> Array:
        """Return the indices of the kept boxes, with pad_to_max_output_size padded with zeros to `limit`."""
        if not self.pad_to_max_output_size:
            return ops.head(selected, count).astype(np.int32)
        selected = np.maximum(selected, 0).astype(np.int32)
        return (
            np.pad(selected, [(0, limit - selected.shape[0])]) if limit > selected.shape[0] else selected[:limit]
        )


@layer("NonMaxSuppressionV4")
class NonMaxSuppressionV4(_PaddedNMS):
    """Return the indices of the best boxes, optionally padded with zeros, and their number.

    The inputs are those of NonMaxSuppressionV3. Outputs: selected_indices int32, (max_output_size,) with
    pad_to_max_output_size, else (K,); valid_outputs, the scalar K.
    Source: tf.raw_ops.NonMaxSuppressionV4; tensorflow/core/kernels/image/non_max_suppression_op.cc.
    """

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("selected_indices", 1), ("valid_outputs", 1))

    def forward(
        self, boxes: Array, scores: Array, max_size: Array, iou: Array, threshold: Array
    ) -> tuple[Array, Array]:
        low = _number(threshold, "score_threshold")
        selected, count, limit = self.keep(boxes, scores, max_size, _number(iou, "iou_threshold"), low)
        return self.pad_indices(selected, count, limit), count.astype(np.int32)


@layer("NonMaxSuppressionV5")
class NonMaxSuppressionV5(_PaddedNMS):
    """Return the indices of the best boxes, their scores, and their number.

    The inputs are those of NonMaxSuppressionV3, and soft_nms_sigma, which must be 0: scores are not reduced.
    Outputs: selected_indices, selected_scores, both (max_output_size,) with pad_to_max_output_size, else (K,); and
    valid_outputs, the scalar K.
    Source: tf.raw_ops.NonMaxSuppressionV5; tensorflow/core/kernels/image/non_max_suppression_op.cc.
    """

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("selected_indices", 1), ("selected_scores", 1), ("valid_outputs", 1))

    def forward(
        self, boxes: Array, scores: Array, max_size: Array, iou: Array, threshold: Array, sigma: Array
    ) -> tuple[Array, Array, Array]:
        need(_number(sigma, "soft_nms_sigma") == 0, "soft_nms_sigma must be 0: soft NMS is not supported")
        low = _number(threshold, "score_threshold")
        selected, count, limit = self.keep(boxes, scores, max_size, _number(iou, "iou_threshold"), low)
        real = selected >= 0
        best = np.where(real, ops.gather(scores, np.maximum(selected, 0)), np.zeros((), scores.dtype))
        if self.pad_to_max_output_size:
            best = np.pad(best, [(0, limit - best.shape[0])]) if limit > best.shape[0] else best[:limit]
        else:
            best = ops.head(best, count)
        return self.pad_indices(selected, count, limit), best, count.astype(np.int32)
