"""A user's layer for the benchmark: bilinear samples of a map at the places that a second input gives."""

from anylayer import ops


class GridSample:
    """OpenCV's contract; the places are (x, y) from -1 to 1, corners not aligned, zeros outside."""

    def __init__(self, params, blobs):
        pass

    def getMemoryShapes(self, inputs):
        (n, c, _, _), (_, h, w, _) = inputs
        return [[n, c, h, w]]

    def forward(self, inputs):
        x, grid = inputs
        return [ops.grid_sample(x, grid, mode="linear", padding="zeros", align_corners=False)]
