"""Reverse of Ascend's Caffe: the values along some axes in the opposite order.

The C++ copies element by element to a mirrored index. In NumPy this is a slice with step -1, without a copy.
"""

import numpy as np

import anylayer


@anylayer.layer("Reverse")
class ReverseLayer:
    """Any shape to the same shape, reversed along `axis`, which is one axis or several."""

    def __init__(self, params, blobs):
        self.axes = tuple(map(int, np.atleast_1d(params["axis"])))

    def getMemoryShapes(self, inputs):
        return [inputs[0]]

    def forward(self, inputs):
        return [np.flip(inputs[0], self.axes)]
