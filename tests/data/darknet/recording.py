"""What the scripts in this folder share: random numbers, and the file of recorded cases."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

F = np.float32
HEADER = np.array([0, 2, 0], "<i4").tobytes() + np.array([7], "<u8").tobytes()


def noise(*shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(F)


def sigmoid(v):
    return 1 / (1 + math.exp(-v))


def statistics(count, seed=3):
    """Return biases, scales, means and variances."""
    biases, scales, means, variances = noise(4, count, seed=seed)
    return [biases, scales, means, np.abs(variances) + F(0.5)]


def save(cases, name):
    """Write cases to a file: `index` (JSON) and `data`."""
    index, data = [], b""

    def put(array):
        nonlocal data
        start, array = len(data), np.ascontiguousarray(array, F)
        data += array.tobytes()
        return [list(array.shape), start, len(data)]

    for case in cases:
        row = {key: value for key, value in case.items() if key not in ("x", "outputs", "weights")}
        row["x"], row["outputs"] = put(case["x"]), {name: put(y) for name, y in case["outputs"].items()}
        row["weights"] = [len(data), len(data) + len(case["weights"])]
        data += case["weights"]
        index.append(row)
    np.savez_compressed(
        Path(__file__).parent / name,
        index=np.frombuffer(json.dumps(index).encode(), np.uint8),
        data=np.frombuffer(data, np.uint8),
    )
