"""Write the weights of deploy.prototxt: an edge detector with HED's structure, set by hand, without training.

    python examples/hed/make_model.py hed.caffemodel

Every stage smooths the picture (convN_1), responds to steps of light and colour in eight directions (convN_2), and
keeps a response if its neighbours along the edge agree and those across it are weaker (convN_3). The next stage
does the same at half the size. The file is written byte by byte: neither Caffe nor protobuf is needed.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

STAGES = 5
COLOURS = 3
DIRECTIONS = 8
RESPONSES = COLOURS * DIRECTIONS

SCORE, SCORE_BIAS = 40.0, -4.0
"""A side output: its sigmoid is one half where the step of light is a tenth of white."""
FUSE, FUSE_BIAS = (1.0, 0.25, 0.2, 0.1, 0.05), 1.6
"""The fine scales locate the line, the coarse ones decide whether it is one."""


def grid(radius: int) -> tuple[Floats, Floats]:
    """Return x and y of a square kernel's taps."""
    line = np.arange(-radius, radius + 1, dtype=np.float32)
    return line[None, :], line[:, None]


def gauss(t: Floats, sigma: float) -> Floats:
    """Return an unnormalised Gaussian."""
    return np.exp(-(t**2) / np.float32(2 * sigma**2))


def smoothing(radius: int, sigma: float) -> Floats:
    """Return a Gaussian kernel of sum 1."""
    x, y = grid(radius)
    kernel = gauss(x, sigma) * gauss(y, sigma)
    return kernel / kernel.sum()


def step(direction: int) -> Floats:
    """Return a 5x5 derivative of a Gaussian: it responds with 1 to a step of height 1 that rises along
    `direction`.
    """
    angle = 2 * np.pi * direction / DIRECTIONS
    x, y = grid(2)
    kernel = (x * np.cos(angle) + y * np.sin(angle)) * gauss(x, 1.0) * gauss(y, 1.0)
    return (2 * kernel / np.abs(kernel).sum()).astype(np.float32)


def ridge(direction: int) -> Floats:
    """Return a 7x7 kernel for the responses of `step`: it adds them up along the edge, and keeps only the crest
    across it.
    """
    angle = 2 * np.pi * direction / DIRECTIONS
    x, y = grid(3)
    across = x * np.cos(angle) + y * np.sin(angle)
    along = y * np.cos(angle) - x * np.sin(angle)
    narrow = gauss(across, 0.6) * gauss(along, 1.6)
    wide = gauss(across, 2.0) * gauss(along, 1.6)
    return (narrow / narrow.sum() - wide / wide.sum()).astype(np.float32)


def colours() -> Floats:
    """Return the rows that convert blue, green, red (0..255) to light, blue-yellow and red-green (each 0..1)."""
    rows = np.array([[0.114, 0.587, 0.299], [0.5, -0.25, -0.25], [0.0, -0.5, 0.5]])
    return (rows / 255).astype(np.float32)


def first(stage: int) -> tuple[Floats, Floats]:
    """Return convN_1: it smooths. The first one also converts colours to light and two contrasts, kept positive by
    0.5.
    """
    kernel = smoothing(1, 0.6)
    if stage == 1:
        return colours()[:, :, None, None] * kernel, np.array([0, 0.5, 0.5], np.float32)
    weights = np.zeros((COLOURS, COLOURS + 1, 3, 3), np.float32)
    for c in range(COLOURS):
        weights[c, c] = kernel
    return weights, np.zeros(COLOURS, np.float32)


def second(stage: int) -> tuple[Floats, Floats]:
    """Return convN_2: the unchanged colours, and their steps in eight directions."""
    weights = np.zeros((COLOURS + RESPONSES, COLOURS, 5, 5), np.float32)
    for c in range(COLOURS):
        weights[c, c, 2, 2] = 1
        for d in range(DIRECTIONS):
            weights[COLOURS + c * DIRECTIONS + d, c] = step(d)
    return weights, np.zeros(len(weights), np.float32)


def third(stage: int) -> tuple[Floats, Floats]:
    """Return convN_3: the unchanged colours, and one channel of edges."""
    weights = np.zeros((COLOURS + 1, COLOURS + RESPONSES, 7, 7), np.float32)
    for c in range(COLOURS):
        weights[c, c, 3, 3] = 1
        for d in range(DIRECTIONS):
            weights[COLOURS, COLOURS + c * DIRECTIONS + d] = ridge(d)
    return weights, np.zeros(len(weights), np.float32)


def score(stage: int) -> tuple[Floats, Floats]:
    """Return score-dsnN: the channel of edges."""
    weights = np.zeros((1, COLOURS + 1, 1, 1), np.float32)
    weights[0, COLOURS] = SCORE
    return weights, np.float32([SCORE_BIAS])


def model() -> dict[str, tuple[Floats, Floats]]:
    """Return weights and bias of every convolution, by layer name."""
    layers = {}
    for n in range(1, STAGES + 1):
        layers[f"conv{n}_1"] = first(n)
        layers[f"conv{n}_2"] = second(n)
        layers[f"conv{n}_3"] = third(n)
        layers[f"score-dsn{n}"] = score(n)
    layers["new-score-weighting"] = np.array(FUSE, np.float32).reshape(1, -1, 1, 1), np.float32([FUSE_BIAS])
    return layers


def varint(n: int) -> bytes:
    """Return an integer in protobuf's base-128 encoding."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def message(number: int, content: bytes) -> bytes:
    """Return a field of bytes: a string, a message or packed numbers."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def blob(array: Floats) -> bytes:
    """Return a BlobProto: 7 shape { 1 dim }, 5 data."""
    shape = message(1, b"".join(map(varint, array.shape)))
    return message(7, shape) + message(5, struct.pack(f"<{array.size}f", *array.flat))


def caffemodel(name: str, layers: dict[str, tuple[Floats, Floats]]) -> bytes:
    """Return a NetParameter: 1 name, 100 layer { 1 name 2 type 7 blobs }."""
    out = message(1, name.encode())
    for layer, blobs in layers.items():
        content = message(1, layer.encode()) + message(2, b"Convolution")
        out += message(100, content + b"".join(message(7, blob(b)) for b in blobs))
    return out


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_bytes(caffemodel("HED by hand", model()))
    print(f"wrote {path}: {path.stat().st_size} bytes, weights set by hand")
