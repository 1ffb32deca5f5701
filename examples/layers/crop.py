"""Crop as HED was trained with it: cut from the centre, where Caffe's own layer cuts from the top left corner.

    anylayer run deploy.prototxt hed.caffemodel --layers examples/layers/crop.py

This is the class of OpenCV's tutorial on custom layers, in OpenCV's form: getMemoryShapes is called first and may
store values for forward. cv2.dnn_registerLayer("Crop", CropLayer) accepts the same class.
"""

import anylayer


@anylayer.layer("Crop")
class CropLayer:
    """Crop the first input to the height and width of the second, from its centre."""

    def __init__(self, params, blobs):
        self.rows = self.columns = slice(0, 0)

    def getMemoryShapes(self, inputs):
        (n, c, height, width), (_, _, rows, columns) = inputs
        top, left = (height - rows) // 2, (width - columns) // 2
        self.rows, self.columns = slice(top, top + rows), slice(left, left + columns)
        return [[n, c, rows, columns]]

    def forward(self, inputs):
        return [inputs[0][:, :, self.rows, self.columns]]
