"""Frames and spectra of audio."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided

from .case import wild


def signal(random, share):
    return [random.standard_normal(400).astype(np.float32) * (share + 0.1)]


@wild(signal)
def strided_frames(x):
    step = x.strides[0]
    frames = as_strided(x, shape=(24, 25), strides=(16 * step, step))
    return frames * np.hamming(25).astype(np.float32)


@wild(signal)
def power_of_frames(x):
    frames = x[: 16 * 25].reshape(16, 25)
    return np.square(np.abs(np.fft.rfft(frames, 32))) / 32


@wild(signal, tolerance=1e-3)
def log_filterbank(x):
    power = np.abs(np.fft.rfft(x.reshape(10, 40), 64)) ** 2
    bank = np.abs(np.sin(np.arange(33 * 8).reshape(33, 8))).astype(np.float32)
    energy = np.dot(power, bank)
    return np.log(np.where(energy == 0, np.finfo(np.float32).eps, energy))


@wild(signal)
def preemphasis(x):
    return np.append(x[0], x[1:] - 0.97 * x[:-1])


@wild(signal)
def zero_crossings(x):
    return np.where(np.diff(np.sign(x)) != 0)[0]


@wild(signal)
def loud_samples(x):
    loud = np.abs(x) > 0.5
    return x[loud], np.flatnonzero(loud)


@wild(signal)
def autocorrelation(x):
    z = np.fft.rfft(x[:128], 256)
    return np.fft.irfft(z * np.conj(z))[:128]


@wild(signal)
def transform_row_by_row(x):
    frame = x[:32]
    waves = np.exp(-2j * np.pi / 32 * np.outer(np.arange(32), np.arange(32)))
    spectrum = np.array([np.vdot(np.conj(w), frame) for w in waves[:17]])
    return np.abs(spectrum), np.abs(np.vdot(frame, waves[1])), np.dot(waves[:4], frame).real
