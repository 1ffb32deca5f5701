"""Run Darknet networks in the simulator of RKNN. Run by the Python of the environment with rknn-toolkit2.

Argument: a folder. For each NAME.cfg with NAME.weights and the input NAME.npy, it gets NAME.npz with the outputs
in order, or NAME.txt with the reason why RKNN fails.
"""

import sys
from pathlib import Path

import numpy as np
from rknn.api import RKNN


def outputs(rknn, path):
    rknn.config(target_platform="rk3588")
    if rknn.load_darknet(model=str(path), weight=str(path.with_suffix(".weights"))) != 0:
        raise ValueError("load_darknet failed")
    if rknn.build(do_quantization=False) != 0 or rknn.init_runtime() != 0:
        raise ValueError("build failed")
    return rknn.inference(inputs=[np.load(path.with_suffix(".npy"))], data_format="nchw")


for path in sorted(Path(sys.argv[1]).glob("*.cfg")):
    rknn = RKNN(verbose=False)
    try:
        results = outputs(rknn, path)
        np.savez(path.with_suffix(".npz"), **{str(i): array for i, array in enumerate(results)})
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        path.with_suffix(".txt").write_text(lines[-1])
    finally:
        rknn.release()
