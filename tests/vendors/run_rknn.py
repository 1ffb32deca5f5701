"""Run a network in the simulator of RKNN. Run by the Python of the environment with rknn-toolkit2.

Arguments: the prototxt, the caffemodel, an .npz file with the inputs in order, and the .npz file to write with the
outputs, which are called 0, 1, ... in the order of the network's outputs.
"""

import sys

import numpy as np
from rknn.api import RKNN

prototxt, weights, inputs, outputs = sys.argv[1:]
given = [np.load(inputs)[name] for name in np.load(inputs)]
rknn = RKNN(verbose=False)
rknn.config(target_platform="rk3588")
for status, step in (
    (rknn.load_caffe(model=prototxt, blobs=weights), "load_caffe"),
    (rknn.build(do_quantization=False), "build"),
    (rknn.init_runtime(), "init_runtime"),
):
    if status != 0:
        sys.exit(f"{step} failed")
results = rknn.inference(inputs=given, data_format="nchw")
np.savez(outputs, **{str(i): array for i, array in enumerate(results)})
