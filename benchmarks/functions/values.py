# mypy: disable-error-code="no-untyped-def"
"""Functions of values inside networks: activations, normalizations, distances, attention, sounds."""

from __future__ import annotations

import numpy as np

from benchmarks.functions import Case, between, noise


def gelu_chain(x):
    return 0.5 * x * (1 + np.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


def swish_gate(x, gate):
    return x * gate / (1 + np.exp(-gate))


def softmax_top_5(x):
    e = np.exp(x - np.max(x))
    p = e / np.sum(e)
    order = np.argsort(-p)[:5]
    return order, p[order]


def instance_norm(x, scale, shift):
    mean = x.mean(axis=(1, 2), keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=(1, 2), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale[:, None, None] + shift[:, None, None]


def layer_norm(x, scale, shift):
    centered = x - x.mean(axis=-1, keepdims=True)
    variance = (centered * centered).mean(axis=-1, keepdims=True)
    return centered / np.sqrt(variance + 1e-6) * scale + shift


def cosine_similarity(a, b):
    a = a / np.sqrt((a * a).sum(axis=1, keepdims=True))
    b = b / np.sqrt((b * b).sum(axis=1, keepdims=True))
    return a @ b.T


def pairwise_distances(a, b):
    return np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))


def attention(q, k, v):
    scores = q @ k.transpose(0, 2, 1) / 8
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)) @ v


def sine_encoding(x):
    steps = 10000 ** (np.arange(32) / -32).astype(np.float32)
    angles = x[:, None] * steps
    return np.concatenate((np.sin(angles), np.cos(angles)), axis=1)


def log_mel(spectrum, filters):
    power = spectrum[:, :, 0] * spectrum[:, :, 0] + spectrum[:, :, 1] * spectrum[:, :, 1]
    return np.log(np.maximum(power @ filters, 1e-10))


def smoothed(x):
    y = np.zeros_like(x)
    state = x[0]
    for i in range(x.shape[0]):
        state = 0.975 * state + 0.025 * x[i]
        y[i] = x[i] / (1e-6 + state)
    return y


CASES = [
    Case(gelu_chain, noise((64, 112, 112))),
    Case(swish_gate, noise((512, 768), (512, 768))),
    Case(softmax_top_5, noise((1000,))),
    Case(instance_norm, noise((64, 56, 56), (64,), (64,))),
    Case(layer_norm, noise((512, 768), (768,), (768,))),
    Case(cosine_similarity, noise((256, 512), (256, 512))),
    Case(pairwise_distances, noise((256, 32), (256, 32))),
    Case(attention, noise((8, 128, 64), (8, 128, 64), (8, 128, 64))),
    Case(sine_encoding, between(0, 1000, (1024,))),
    Case(log_mel, noise((100, 257, 2), (257, 80))),
    Case(smoothed, between(0, 1, (64, 80))),
]
