"""ROIAlign of Mask R-CNN: the mean of bilinear samples in each bin of each region.

The C++ loops over regions, channels, bins and samples, and interpolates between four pixels each time. Rows and
columns of the samples are independent, so one array of indices and weights per axis is enough. Each of the four
neighbours is one gather of pixels with all their channels.
"""

import numpy as np

import anylayer


@anylayer.layer("ROIAlign")
class ROIAlignLayer:
    """(N, C, H, W) and regions (K, 5) = image, x1, y1, x2, y2 in pixels to (K, C, pooled_h, pooled_w)."""

    def __init__(self, params, blobs):
        self.bins = int(params["pooled_h"]), int(params["pooled_w"])
        self.scale = np.float32(params.get("spatial_scale", 1))
        self.samples = int(params.get("sampling_ratio", 2))

    def getMemoryShapes(self, inputs):
        return [[inputs[1][0], inputs[0][1], *self.bins]]

    def forward(self, inputs):
        x, rois = inputs
        _, c, h, w = x.shape
        pixels = x.transpose(0, 2, 3, 1).reshape(-1, c)
        first = rois[:, 0].astype(np.int64)[:, None, None] * h  # the first row of each region's image
        left, top, right, bottom = (rois[:, i] * self.scale for i in range(1, 5))
        rows = self.neighbours(top, bottom, self.bins[0], h)
        columns = self.neighbours(left, right, self.bins[1], w)
        total = 0
        for row, v in rows:
            for column, u in columns:
                near = np.take(pixels, (first + row[:, :, None]) * w + column[:, None], axis=0)
                near *= (v[:, :, None] * u[:, None])[..., None]
                total += near
        bins = total.reshape(-1, self.bins[0], self.samples, self.bins[1], self.samples, c).mean(axis=(2, 4))
        return [bins.transpose(0, 3, 1, 2)]

    def neighbours(self, start, end, bins, size):
        """Return (index, weight) of the pixel before and after each sample on an axis of `size` pixels."""
        length = np.maximum(end - start, np.float32(1))
        place = (np.arange(bins * self.samples, dtype=np.float32) + np.float32(0.5)) / np.float32(
            bins * self.samples
        )
        at = start[:, None] + place * length[:, None]
        inside = ((at >= -1) & (at <= size)).astype(np.float32)
        at = np.clip(at, np.float32(0), np.float32(size - 1))
        low = np.minimum(np.where(at > 0, at, np.float32(0)).astype(np.int64), size - 1)  # 0 for NaN
        part = at - low.astype(np.float32)
        return (low, (1 - part) * inside), (np.minimum(low + 1, size - 1), part * inside)
