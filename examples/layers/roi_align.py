"""ROIAlign of Mask R-CNN: the mean of bilinear samples in each bin of each region.

The C++ loops over regions, channels, bins and samples, and interpolates between four pixels each time. The weight
of a pixel in a bilinear sample is the product of a weight of its row and a weight of its column. The same is true
for the mean of the samples on a grid. So one small matrix per region has the weights of the map's rows for each
row of bins, another one those of the columns, and two matrix products compute all channels at once.
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
        image = rois[:, 0].astype(np.int64)
        left, top, right, bottom = (rois[:, i] * self.scale for i in range(1, 5))
        rows = self.weights(top, bottom, self.bins[0], x.shape[2])  # (K, pooled_h, H)
        columns = self.weights(left, right, self.bins[1], x.shape[3])  # (K, pooled_w, W)
        return [rows[:, None] @ x[image] @ columns.swapaxes(1, 2)[:, None]]

    def weights(self, start, end, bins, size):
        """Return the weight of each of `size` pixels of an axis for each bin: the mean over the bin's samples."""
        length = np.maximum(end - start, np.float32(1))
        place = (np.arange(bins * self.samples, dtype=np.float32) + np.float32(0.5)) / np.float32(
            bins * self.samples
        )
        at = start[:, None] + place * length[:, None]
        inside = (at >= -1) & (at <= size)
        at = np.clip(at, np.float32(0), np.float32(size - 1))[:, :, None]
        hat = np.maximum(1 - np.abs(at - np.arange(size, dtype=np.float32)), np.float32(0))
        hat = hat * inside[:, :, None].astype(np.float32)
        return hat.reshape(-1, bins, self.samples, size).mean(axis=2)
