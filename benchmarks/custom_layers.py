"""Layer classes in the form of OpenCV's Python layers, the same for anylayer, OpenCV and OpenVINO.

They are vectorised NumPy without avoidable allocations, as a careful user would write them. This file imports only
NumPy, because the environment with OpenCV reads it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Shapes = list[list[int]]


class CropLayer:
    """Crop the first input to the height and width of the second, from its centre: HED's layer in OpenCV's
    tutorial on custom layers.
    """

    def __init__(self, params: Any, blobs: Any) -> None:
        self.top = self.left = self.height = self.width = 0

    def getMemoryShapes(self, inputs: Shapes) -> Shapes:
        (n, c, height, width), wanted = inputs
        self.height, self.width = wanted[2], wanted[3]
        self.top, self.left = (height - self.height) // 2, (width - self.width) // 2
        return [[n, c, self.height, self.width]]

    def forward(self, inputs: Any) -> Any:
        return [inputs[0][:, :, self.top : self.top + self.height, self.left : self.left + self.width]]


class MyInterp:
    """Bilinear interpolation to 129 x 129 with aligned corners, one axis after the other."""

    SIZE = 129

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def getMemoryShapes(self, inputs: Shapes) -> Shapes:
        n, c, _, _ = inputs[0]
        return [[n, c, self.SIZE, self.SIZE]]

    def forward(self, inputs: Any) -> Any:
        x = inputs[0]
        for axis in (2, 3):
            n = x.shape[axis]
            place = np.arange(self.SIZE, dtype=np.float32) * np.float32((n - 1) / (self.SIZE - 1))
            low = np.minimum(place.astype(int), n - 2)
            part = (place - low).astype(np.float32).reshape(-1, *[1] * (3 - axis))
            x = np.take(x, low, axis) * (1 - part) + np.take(x, low + 1, axis) * part
        return [x]


class MyNormalize:
    """Divide each pixel's channels by their Euclidean length, then multiply by a scale per channel (SSD's
    conv4_3).
    """

    def __init__(self, params: Any, blobs: Any) -> None:
        self.scale = np.asarray(blobs[0], np.float32).reshape(1, -1, 1, 1)

    def getMemoryShapes(self, inputs: Shapes) -> Shapes:
        return [inputs[0]]

    def forward(self, inputs: Any) -> Any:
        x = inputs[0]
        length = np.sqrt(np.sum(x * x, axis=1, keepdims=True) + np.float32(1e-10))
        return [x / length * self.scale]


class MyLeakyReLU:
    """Return x where x > 0, and 0.1 * x elsewhere."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def getMemoryShapes(self, inputs: Shapes) -> Shapes:
        return [inputs[0]]

    def forward(self, inputs: Any) -> Any:
        x = inputs[0]
        return [np.maximum(x, x * np.float32(0.1))]


CLASSES = {"Crop": CropLayer, "MyInterp": MyInterp, "MyNormalize": MyNormalize, "MyLeakyReLU": MyLeakyReLU}
SCALE = np.linspace(1, 20, 512, dtype=np.float32)
BRANCHES: dict[str, tuple[Any, dict[str, Any], Callable[[], list[np.ndarray]]]] = {
    "interp": (MyInterp, {}, list),
    "normalize": (MyNormalize, {}, lambda: [SCALE]),
    "leaky": (MyLeakyReLU, {}, list),
}
"""A network of custom layers only: input name and output name -> class, params, blobs. Each branch is one layer.
"""
SHAPES = {"interp": (1, 64, 65, 65), "normalize": (1, 512, 38, 38), "leaky": (1, 96, 55, 55)}
