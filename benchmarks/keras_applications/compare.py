"""Compare anylayer's results for the networks that make.py saved with those of Keras.

python -m benchmarks.keras_applications.compare FOLDER [NAME ...] prints a line for each file and engine. The exit
status is 1 if a result differs by more than 1e-4 of the output's largest value.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

import anylayer

ENGINES = ("numpy", "onnxruntime", "openvino")
TOLERANCE = 1e-4


def compare(folder: Path, names: list[str]) -> int:
    """Print the largest difference of each result, relative to the output's largest value. Return how many exceed
    the tolerance.
    """
    above = 0
    for name in names:
        known = np.load(folder / f"{name}.npz")
        for path in (folder / f"{name}.keras", folder / f"{name}.h5"):
            began = time.perf_counter()
            net = anylayer.read(path)
            seconds = [time.perf_counter() - began]
            for engine in ENGINES:
                began = time.perf_counter()
                model = net.compile(engine)
                seconds.append(time.perf_counter() - began)
                got = next(iter(model({next(iter(net.inputs)): known["x"]}).values()))
                off = float(np.abs(got - known["y"]).max() / np.abs(known["y"]).max())
                above += not off <= TOLERANCE
                times = f"read {seconds[0]:.2f} s, compiled {seconds[-1]:.2f} s"
                print(
                    f"{path.name:28} {engine:12} {off:8.1e}  {times}  {len(model.host_calls)} host calls",
                    flush=True,
                )
    return above


if __name__ == "__main__":
    where = Path(sys.argv[1])
    sys.exit(bool(compare(where, sys.argv[2:] or sorted(p.stem for p in where.glob("*.npz")))))
