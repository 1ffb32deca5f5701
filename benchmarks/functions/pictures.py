# mypy: disable-error-code="no-untyped-def"
"""Functions of pictures: preprocessing, colours, filters and resampling."""

from __future__ import annotations

import numpy as np

from benchmarks.functions import Case, between, noise, picture


def normalize(x):
    scaled = x.astype(np.float32) / 255
    mean = np.array([0.485, 0.456, 0.406], np.float32)
    std = np.array([0.229, 0.224, 0.225], np.float32)
    return ((scaled - mean) / std).transpose(2, 0, 1)


def bilinear_resize(x):
    rows = np.linspace(0, x.shape[1] - 1, 112).astype(np.float32)
    columns = np.linspace(0, x.shape[2] - 1, 112).astype(np.float32)
    top = np.minimum(rows.astype(np.int64), x.shape[1] - 2)
    left = np.minimum(columns.astype(np.int64), x.shape[2] - 2)
    dy = (rows - top).astype(np.float32).reshape(1, -1, 1)
    dx = (columns - left).astype(np.float32).reshape(1, 1, -1)
    upper, lower = x[:, top], x[:, top + 1]
    first = upper[:, :, left] * (1 - dx) + upper[:, :, left + 1] * dx
    second = lower[:, :, left] * (1 - dx) + lower[:, :, left + 1] * dx
    return first * (1 - dy) + second * dy


def table_lookup(x, table):
    return table[x]


def blur_3x3(x):
    y = np.zeros_like(x)
    y[:, 1:-1, 1:-1] = (
        x[:, :-2, :-2] + 2 * x[:, :-2, 1:-1] + x[:, :-2, 2:]
        + 2 * x[:, 1:-1, :-2] + 4 * x[:, 1:-1, 1:-1] + 2 * x[:, 1:-1, 2:]
        + x[:, 2:, :-2] + 2 * x[:, 2:, 1:-1] + x[:, 2:, 2:]
    ) / 16  # fmt: skip
    return y


def sobel_magnitude(x):
    right, left = x[:, 2:], x[:, :-2]
    gx = (right - left)[:-2] + 2 * (right - left)[1:-1] + (right - left)[2:]
    gy = (x[2:] - x[:-2])[:, :-2] + 2 * (x[2:] - x[:-2])[:, 1:-1] + (x[2:] - x[:-2])[:, 2:]
    return np.sqrt(gx * gx + gy * gy)


def rgb_to_hsv(x):
    r, g, b = x[0], x[1], x[2]
    high = np.maximum(np.maximum(r, g), b)
    low = np.minimum(np.minimum(r, g), b)
    spread = high - low
    safe = np.where(spread > 0, spread, 1)
    hue = np.where(high == r, (g - b) / safe, np.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4))
    saturation = np.where(high > 0, spread / np.where(high > 0, high, 1), 0)
    return np.stack((hue / 6, saturation, high))


def nv12_to_rgb(luma, chroma):
    y = luma.astype(np.float32) - 16
    uv = np.repeat(np.repeat(chroma, 2, axis=0), 2, axis=1).astype(np.float32) - 128
    u, v = uv[:, :, 0], uv[:, :, 1]
    r = 1.164 * y + 1.596 * v
    g = 1.164 * y - 0.392 * u - 0.813 * v
    b = 1.164 * y + 2.017 * u
    return np.clip(np.stack((r, g, b)), 0, 255) / 255


def gamma(x):
    return np.power(x, 0.4545)


def pixel_shuffle(x):
    c, h, w = x.shape
    return x.reshape(c // 4, 2, 2, h, w).transpose(0, 3, 1, 4, 2).reshape(c // 4, h * 2, w * 2)


def channel_shuffle(x):
    c, h, w = x.shape
    return x.reshape(4, c // 4, h, w).transpose(1, 0, 2, 3).reshape(c, h, w)


def max_pool_2x2(x):
    c, h, w = x.shape
    return x.reshape(c, h // 2, 2, w // 2, 2).max(axis=4).max(axis=2)


def warp_affine(x):
    ys = np.arange(160).reshape(-1, 1)
    xs = np.arange(160).reshape(1, -1)
    sx = (0.9 * xs + 0.2 * ys + 3.0).astype(np.float32)
    sy = (-0.2 * xs + 0.9 * ys + 30.0).astype(np.float32)
    left = np.floor(sx).astype(np.int64)
    top = np.floor(sy).astype(np.int64)
    fx, fy = sx - left, sy - top
    left, top = np.clip(left, 0, x.shape[1] - 2), np.clip(top, 0, x.shape[0] - 2)
    flat = x.reshape(-1)
    at = top * x.shape[1] + left
    upper = flat[at] * (1 - fx) + flat[at + 1] * fx
    lower = flat[at + x.shape[1]] * (1 - fx) + flat[at + x.shape[1] + 1] * fx
    return upper * (1 - fy) + lower * fy


CASES = [
    Case(normalize, picture((480, 640, 3))),
    Case(bilinear_resize, noise((32, 56, 56))),
    Case(table_lookup, lambda r: [r.integers(0, 256, (480, 640)).astype(np.uint8), r.random(256, np.float32)]),
    Case(blur_3x3, noise((3, 480, 640))),
    Case(sobel_magnitude, noise((480, 640))),
    Case(rgb_to_hsv, between(0, 1, (3, 240, 320))),
    Case(nv12_to_rgb, picture((480, 640), (240, 320, 2))),
    Case(gamma, between(0, 1, (3, 240, 320))),
    Case(pixel_shuffle, noise((64, 80, 80))),
    Case(channel_shuffle, noise((64, 56, 56))),
    Case(max_pool_2x2, noise((64, 112, 112))),
    Case(warp_affine, noise((240, 240))),
]
