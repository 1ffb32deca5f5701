"""ResizeBilinear of TensorFlow 1 (tf.image.resize_bilinear): row y of the result is read at y * H / height.

The size comes in the blobs, which are TensorFlow's constant inputs: one blob with the height and the width, or two
blobs with the factors of the input's height and width. The C++ of OpenCV's tutorial computes four products per
pixel and channel; here one array of indices and weights per axis is enough, and whole rows are added at once.
Source of the formula: tensorflow/core/kernels/image_resizer_state.h (align_corners and half_pixel_centers false).
"""

import numpy as np

import anylayer


@anylayer.layer("ResizeBilinear")
class ResizeBilinearLayer:
    """(N, C, H, W) to (N, C, height, width)."""

    def __init__(self, params, blobs):
        anylayer.need(not params.get("align_corners", False), "align_corners is not supported: give it as false")
        sizes = [blob.size for blob in blobs]
        anylayer.need(
            sizes in ([2], [1, 1]),
            f"a blob with the height and width, or two with their factors, is needed, got sizes {sizes}",
        )
        self.numbers = [int(value) for blob in blobs for value in blob.reshape(-1)]
        anylayer.need(min(self.numbers) > 0, f"height and width must be positive, got {self.numbers}")
        self.factors = len(blobs) == 2

    def getMemoryShapes(self, inputs):
        n, c, *size = inputs[0]
        if self.factors:
            return [[n, c, *(old * factor for old, factor in zip(size, self.numbers))]]
        return [[n, c, *self.numbers]]

    def forward(self, inputs):
        x = inputs[0]
        _, _, height, width = self.getMemoryShapes([x.shape])[0]
        return [resize(resize(x, 3, width), 2, height)]


def resize(x, axis, size):
    """Interpolate linearly along one axis; the last element is repeated beyond the end."""
    old = x.shape[axis]
    at = np.arange(size, dtype=np.float32) * (np.float32(old) / np.float32(size))
    low = np.floor(at).astype(int)
    part = (at - low).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return (1 - part) * np.take(x, low, axis) + part * np.take(x, np.minimum(low + 1, old - 1), axis)
