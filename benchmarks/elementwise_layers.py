"""Two elementwise layers for benchmarks/loops.py and benchmarks/targets.py."""

import numpy as np

import anylayer


@anylayer.layer("Chain")
class ChainLayer:
    """Five elementwise operations."""

    def __init__(self, params, blobs):
        pass

    def getMemoryShapes(self, inputs):
        return [inputs[0]]

    def forward(self, inputs):
        x = inputs[0]
        return [np.maximum(x * 2 + 1, 0) * x - 3]


@anylayer.layer("Logistic")
class LogisticLayer(ChainLayer):
    """The logistic function."""

    def forward(self, inputs):
        return [1 / (1 + np.exp(-inputs[0]))]
