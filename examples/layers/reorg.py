"""Reorg of Ascend (PassThrough, the space-to-depth of YOLOv2): the pixels of a block become channels.

The C++ computes the index of the input element for every element of the output. Here the axes are split into block
and position in the block, transposed and merged again: NumPy changes strides, an engine runs one operator.
"""

import anylayer


@anylayer.layer("Reorg")
class ReorgLayer:
    """(N, C, H, W) to (N, C * stride * stride, H / stride, W / stride), or the inverse if `reverse` is set."""

    def __init__(self, params, blobs):
        self.stride = int(params.get("stride", 2))
        self.reverse = params.get("reverse", 0) in (1, "true")

    def getMemoryShapes(self, inputs):
        (n, c, h, w), s = inputs[0], self.stride
        return [[n, c // (s * s), h * s, w * s] if self.reverse else [n, c * s * s, h // s, w // s]]

    def forward(self, inputs):
        x, s = inputs[0], self.stride
        n, c, h, w = x.shape
        if self.reverse:
            x = x.reshape(n, s, s, c // (s * s), h, w).transpose(0, 3, 4, 1, 5, 2)
            return [x.reshape(n, c // (s * s), h * s, w * s)]
        x = x.reshape(n, c, h // s, s, w // s, s).transpose(0, 3, 5, 1, 2, 4)
        return [x.reshape(n, c * s * s, h // s, w // s)]
