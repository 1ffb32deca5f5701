"""PriorBoxClustered (Intel's Caffe)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.layer import field, layer, need
from anylayer.layers.caffe._priors import Priors, Size


@layer("PriorBoxClustered")
class PriorBoxClustered(Priors):
    """Return prior boxes of `width` x `height` pixels around every cell of a feature map.

    Feature map (N, C, H, W) and image (N, C', H', W') to (1, 2, H * W * P * 4): [0, 0] the boxes (left, top,
    right, bottom, relative to the image), [0, 1] their variances. min_size, max_size, aspect_ratio and flip are
    ignored. The output is a constant, since it depends on shapes only.
    Source: openvinotoolkit/training_toolbox_caffe src/caffe/layers/prior_box_clustered_layer.cpp; opencv/dldt 2018
    ext_priorbox_clustered.cpp.
    """

    width: tuple[float, ...] = field(14, "float", repeated=True, doc="widths of the boxes, in pixels")
    height: tuple[float, ...] = field(15, "float", repeated=True, doc="heights of the boxes, one per width")

    def setup(self) -> None:
        super().setup()
        need(self.width, "parameter 'width' is missing")
        need(
            len(self.height) == len(self.width),
            f"height must be given {len(self.width)} times, once for each width, got {len(self.height)}",
        )
        need(
            all(side > 0 for side in (*self.width, *self.height)),
            "width and height must be positive, got "
            + ", ".join(f"{w:g} x {h:g}" for w, h in zip(self.width, self.height)),
        )

    def sizes(self) -> Sequence[Size]:
        return [(np.float32(w), np.float32(h)) for w, h in zip(self.width, self.height)]
