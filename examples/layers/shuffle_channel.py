"""ShuffleChannel of ShuffleNet: take one channel of each group in turn.

The C++ copies plane by plane from channel i * (C / group) + j to channel j * group + i. This is the transposition
of a (group, C / group) matrix of channels.
"""

import anylayer


@anylayer.layer("ShuffleChannel")
class ShuffleChannelLayer:
    """(N, C, H, W) to the same shape."""

    def __init__(self, params, blobs):
        self.group = int(params.get("group", 1))

    def getMemoryShapes(self, inputs):
        if inputs[0][1] % self.group:
            raise ValueError(f"group={self.group} does not divide {inputs[0][1]} channels")
        return [inputs[0]]

    def forward(self, inputs):
        x = inputs[0]
        n, c, h, w = x.shape
        return [x.reshape(n, self.group, c // self.group, h, w).swapaxes(1, 2).reshape(x.shape)]
