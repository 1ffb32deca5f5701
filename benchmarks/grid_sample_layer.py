"""A user's layer for the benchmark: sample a map bilinearly at the points that a second input gives."""

from anylayer import ops


class GridSample:
    """A class in OpenCV's form. The points are (x, y) from -1 to 1, corners are not aligned, and values outside
    are zero.
    """

    def __init__(self, params, blobs):
        pass

    def getMemoryShapes(self, inputs):
        (n, c, _, _), (_, h, w, _) = inputs
        return [[n, c, h, w]]

    def forward(self, inputs):
        x, grid = inputs
        return [ops.grid_sample(x, grid, mode="linear", padding="zeros", align_corners=False)]
