"""Non-maximum suppression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Operation, attribute, known, layer, need, single


def _number(x: Any, what: str) -> float:
    value = known(x, what)
    need(value.size == 1, f"{what} must be one number, got {value.size}")
    return float(value.reshape(-1)[0])


class _Suppression(Operation):
    """Boxes (N, 4), two opposite corners each, and their scores (N,)."""

    def keep(self, boxes: Any, scores: Any, most: Any, iou: float, least: float | None) -> tuple[Any, Any, int]:
        """The kept boxes' numbers, best first and -1 behind, how many there are, and the most there may be."""
        need(
            len(boxes.shape) == 2 and boxes.shape[1] == 4 and tuple(scores.shape) == (boxes.shape[0],),
            f"boxes (N, 4) and scores (N,) are needed, got {tuple(boxes.shape)} and {tuple(scores.shape)}",
        )
        limit = single(most, "max_output_size")
        need(limit >= 0, f"max_output_size must be 0 or more, got {limit}")
        need(0 <= iou <= 1, f"iou_threshold must lie in 0..1, got {iou}")
        if least is not None and least == -np.inf:
            least = None
        selected, count = ops.nms(
            boxes[None], scores[None, None], max_per_class=max(limit, 1), iou_threshold=iou, score_threshold=least
        )
        return selected[:, 2], count, limit


@layer("NonMaxSuppression")
class NonMaxSuppression(_Suppression):
    """The best boxes that overlap no better one (the threshold is an attribute)."""

    iou_threshold: float = attribute("float", 0.5)

    def forward(self, boxes: Any, scores: Any, most: Any) -> Any:
        found, count, limit = self.keep(boxes, scores, most, self.iou_threshold, None)
        return ops.head(found, count).astype(np.int32) if limit else np.zeros(0, np.int32)


@layer("NonMaxSuppressionV2")
@layer("NonMaxSuppressionV3")
class NonMaxSuppressionV3(_Suppression):
    """The best boxes that overlap no better one; V3 leaves out scores up to score_threshold."""

    def forward(self, boxes: Any, scores: Any, most: Any, iou: Any, least: Any = None) -> Any:
        low = _number(least, "score_threshold") if least is not None else None
        found, count, limit = self.keep(boxes, scores, most, _number(iou, "iou_threshold"), low)
        return ops.head(found, count).astype(np.int32) if limit else np.zeros(0, np.int32)


class _Padded(_Suppression):
    pad_to_max_output_size: bool = attribute("bool", False)

    def padded(self, found: Any, count: Any, limit: int) -> Any:
        """The numbers with 0 behind, `limit` of them; or just those kept."""
        if not self.pad_to_max_output_size:
            return ops.head(found, count).astype(np.int32)
        found = np.maximum(found, 0).astype(np.int32)
        return np.pad(found, [(0, limit - found.shape[0])]) if limit > found.shape[0] else found[:limit]


@layer("NonMaxSuppressionV4")
class NonMaxSuppressionV4(_Padded):
    """As V3, on demand with zeros behind; and how many are kept."""

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("selected_indices", 1), ("valid_outputs", 1))

    def forward(self, boxes: Any, scores: Any, most: Any, iou: Any, least: Any) -> Any:
        low = _number(least, "score_threshold")
        found, count, limit = self.keep(boxes, scores, most, _number(iou, "iou_threshold"), low)
        return self.padded(found, count, limit), count.astype(np.int32)


@layer("NonMaxSuppressionV5")
class NonMaxSuppressionV5(_Padded):
    """As V4, with the kept boxes' scores; scores are not softened (soft_nms_sigma 0)."""

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("selected_indices", 1), ("selected_scores", 1), ("valid_outputs", 1))

    def forward(self, boxes: Any, scores: Any, most: Any, iou: Any, least: Any, sigma: Any) -> Any:
        need(_number(sigma, "soft_nms_sigma") == 0, "soft_nms_sigma must be 0: softened scores are not computed")
        low = _number(least, "score_threshold")
        found, count, limit = self.keep(boxes, scores, most, _number(iou, "iou_threshold"), low)
        real = found >= 0
        best = np.where(real, ops.gather(scores, np.maximum(found, 0)), np.zeros((), scores.dtype))
        if self.pad_to_max_output_size:
            best = np.pad(best, [(0, limit - best.shape[0])]) if limit > best.shape[0] else best[:limit]
        else:
            best = ops.head(best, count)
        return self.padded(found, count, limit), best, count.astype(np.int32)
