"""PriorBox of SSD: boxes of several shapes around the centre of every cell, and their variances.

The C++ appends four numbers per box in loops over rows, columns and shapes. Here the centres are one grid, the
shapes one short list, and broadcasting combines them. The result depends only on shapes, not on data: anylayer
computes the boxes once, before the first picture, and the layer is a constant of the network.
"""

import numpy as np

import anylayer


@anylayer.layer("PriorBox")
class PriorBoxLayer:
    """A map (N, C, H, W) and the image (N, C', H', W') to (1, 2, H * W * boxes * 4)."""

    def __init__(self, params, blobs):
        self.small = [int(s) for s in np.atleast_1d(params["min_size"])]
        self.large = [int(s) for s in np.atleast_1d(params.get("max_size", []))]
        flip = params.get("flip", 1) in (1, "true")
        self.ratios = []
        for ratio in np.atleast_1d(params.get("aspect_ratio", [])):
            if all(abs(ratio - r) > 1e-6 for r in [1.0, *self.ratios]):
                self.ratios += [ratio, 1 / ratio] if flip else [ratio]
        self.clip = params.get("clip", 0) in (1, "true")
        self.variance = np.atleast_1d(params.get("variance", 0.1))
        self.size, self.step = int(params.get("img_size", 0)), float(params.get("step", 0))
        self.offset = float(params.get("offset", 0.5))

    def shapes(self):
        """Return the width and height of each box of a cell."""
        found = []
        for i, small in enumerate(self.small):
            found.append((small, small))
            if self.large:
                found.append((np.sqrt(small * self.large[i]),) * 2)
            found += [(small * np.sqrt(r), small / np.sqrt(r)) for r in self.ratios]
        return np.array(found)

    def getMemoryShapes(self, inputs):
        _, _, h, w = inputs[0]
        return [[1, 2, h * w * len(self.shapes()) * 4]]

    def forward(self, inputs):
        (rows, columns), image = inputs[0].shape[2:], inputs[1].shape[2:]
        high, wide = (self.size, self.size) if self.size else image
        x = (np.arange(columns) + self.offset) * (self.step or wide / columns)
        y = (np.arange(rows) + self.offset) * (self.step or high / rows)
        centre = np.stack(np.meshgrid(x, y), axis=-1)[:, :, None]
        half = self.shapes() / 2
        boxes = np.concatenate([centre - half, centre + half], axis=-1) / [wide, high, wide, high]
        if self.clip:
            boxes = np.clip(boxes, 0, 1)
        return [np.stack([boxes.ravel(), np.resize(self.variance, boxes.size)])[None].astype(np.float32)]
