"""Tests of TFLite's operators that write by index, sum segments, or select boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from anylayer.layer import Registry, TensorType, bind

from .recorded import as_recorded, recorded

test_operators_match_the_recorded_results = as_recorded(
    "SCATTER_ND", "SPARSE_TO_DENSE", "DYNAMIC_UPDATE_SLICE", "EMBEDDING_LOOKUP", "UNSORTED_SEGMENT_SUM",
    "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "SEGMENT_SUM", "MATRIX_DIAG",
    "MATRIX_SET_DIAG", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5",
    "TFLite_Detection_PostProcess",
)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_classes": 2}, "num_classes=2, but there are 4 scores for each box"),
        ({"max_detections": 0}, "its limits must be positive"),
        ({"nms_iou_threshold": 1.5}, "its limits must be positive, and nms_iou_threshold at most 1"),
        ({"max_detections": 1 << 20}, "1048576 detections; the limit is 65536"),
    ],
)
def test_detections_with_other_limits_are_refused(options: dict[str, float], text: str, tmp_path: Path) -> None:
    node = anylayer.read(recorded()["TFLite_Detection_PostProcess fast"].save(tmp_path)).network.nodes[-1]
    node.params["options"].update(options)
    arrays = [np.ones((1, 40, 4), np.float32)] * 2 + [np.ones((40, 4), np.float32)]
    with pytest.raises(LayerError, match=text):
        bind(node, Registry.of("tflite").find(node.type), [TensorType.of(x.shape) for x in arrays])(arrays)
