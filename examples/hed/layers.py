"""The user's layers of the networks in this folder: NumPy code that becomes operators of the engine.

The three classes belong to deploy.prototxt. They have the form of OpenCV's Python layers: cv2.dnn_registerLayer
accepts the same classes. The function belongs to the network that trained.py writes.
"""

import numpy as np

import anylayer


@anylayer.layer("Crop")
class CropLayer:
    """Crop the first input to the height and width of the second, from its centre, as HED was trained.

    Caffe's own Crop cuts from the top left corner. This is the class of OpenCV's tutorial on custom layers.
    """

    def __init__(self, params, blobs):
        self.xstart = 0
        self.xend = 0
        self.ystart = 0
        self.yend = 0

    def getMemoryShapes(self, inputs):
        inputShape, targetShape = inputs[0], inputs[1]
        batchSize, numChannels = inputShape[0], inputShape[1]
        height, width = targetShape[2], targetShape[3]

        self.ystart = (inputShape[2] - targetShape[2]) // 2
        self.xstart = (inputShape[3] - targetShape[3]) // 2
        self.yend = self.ystart + height
        self.xend = self.xstart + width

        return [[batchSize, numChannels, height, width]]

    def forward(self, inputs):
        return [inputs[0][:, :, self.ystart : self.yend, self.xstart : self.xend]]


@anylayer.layer("Interp")
class InterpLayer:
    """Bilinear interpolation with aligned corners, to `height` x `width` or by `zoom_factor`.

    The tutorial's C++ visits every pixel. Rows and columns are independent, so one array of indices and weights
    per axis is enough, and whole rows are added at once.
    """

    def __init__(self, params, blobs):
        self.zoom = int(params.get("zoom_factor", 1))
        self.height = int(params.get("height", 0))
        self.width = int(params.get("width", 0))

    def size(self, height, width):
        if self.height:
            return self.height, self.width
        return (height - 1) * self.zoom + 1, (width - 1) * self.zoom + 1

    def getMemoryShapes(self, inputs):
        n, c, h, w = inputs[0]
        return [[n, c, *self.size(h, w)]]

    def forward(self, inputs):
        x = inputs[0]
        height, width = self.size(*x.shape[2:])
        x = stretch(x, 2, height)
        return [stretch(x, 3, width)]


def stretch(x, axis, size):
    """Interpolate linearly along one axis; the first and the last element stay."""
    n = x.shape[axis]
    place = np.arange(size, dtype=np.float32) * np.float32((n - 1) / max(size - 1, 1))
    low = place.astype(int)
    high = np.minimum(low + 1, n - 1)
    part = (place - low).astype(np.float32).reshape(-1, *[1] * (x.ndim - 1 - axis))
    return np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part


@anylayer.layer("ReplicatePad")
class ReplicatePadLayer:
    """Repeat the border pixels `pad` times on each side, so that the border is not an edge.

    No version of Caffe has this layer: this class is its only definition.
    """

    def __init__(self, params, blobs):
        self.pad = int(params["pad"])

    def getMemoryShapes(self, inputs):
        n, c, h, w = inputs[0]
        return [[n, c, h + 2 * self.pad, w + 2 * self.pad]]

    def forward(self, inputs):
        beside = (self.pad, self.pad)
        return [np.pad(inputs[0], [(0, 0), (0, 0), beside, beside], mode="edge")]


@anylayer.layer("ResizeLike")
def resize_like(x, like):
    """Resize to the height and width of the second input, bilinearly, with the centres of pixels at one half."""
    return anylayer.ops.resize(x, like.shape[2:])
