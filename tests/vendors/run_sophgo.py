"""Run a network in Sophgo's Caffe. Run by the Python of the environment with tpu-mlir.

Arguments: the prototxt, the caffemodel, an .npz file with the inputs, and the .npz file to write with the outputs.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(importlib.util.find_spec("tpu_mlir").origin).parent / "python"))
import caffe

prototxt, weights, inputs, outputs = sys.argv[1:]
net = caffe.Net(prototxt, weights, caffe.TEST)
for name, array in np.load(inputs).items():
    net.blobs[name].reshape(*array.shape)
    net.blobs[name].data[...] = array
np.savez(outputs, **net.forward())
