"""Inputs for the networks of the gallery: our own picture, text and sounds that are made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

Floats = NDArray[np.float32]
ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "examples" / "hed" / "picture.png"


def picture(width: int, height: int) -> Floats:
    """Return the demo's picture as (1, H, W, 3) float32 in 0..255, RGB."""
    image = Image.open(PICTURE).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image, np.float32)[None]


def channels_first(x: Floats) -> Floats:
    """Return (N, H, W, C) as (N, C, H, W)."""
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def edges_input() -> dict[str, Any]:
    """Return the picture as HED was trained: BGR, minus the mean of its training pictures."""
    mean = np.array([104.00699, 116.66877, 122.67892], np.float32)
    return {"data": channels_first(picture(480, 320)[..., ::-1] - mean)}


def faces(name: str, size: int, count: int = 8) -> dict[str, Any]:
    """Return parts of the picture, as MTCNN takes them: (N, H, W, 3) in -1..1."""
    whole = (picture(480, 320) - 127.5) / 128
    parts = [whole[0, 20 * i : 20 * i + size, 50 * i : 50 * i + size] for i in range(count)]
    return {name: np.stack(parts).astype(np.float32)}


def text(width: int, height: int, size: int, lines: list[str]) -> Floats:
    """Return black text on white, normalized to -1..1, as (1, 3, H, W)."""
    image = Image.new("RGB", (width, height), "white")
    font = ImageFont.load_default(size)
    for i, line in enumerate(lines):
        ImageDraw.Draw(image).text((size // 3, size // 6 + i * 2 * size), line, "black", font)
    return channels_first(np.asarray(image, np.float32)[None] / 127.5 - 1)


def page() -> dict[str, Any]:
    """Return a page of text, as the detector of PP-OCR takes it."""
    mean, deviation = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]], np.float32)
    x = text(480, 320, 28, ["Networks outlive", "the frameworks", "that trained them.", "Read them again."])
    return {"x": ((x + 1) / 2 - mean[:, None, None]) / deviation[:, None, None]}


def turned_lines() -> dict[str, Any]:
    """Return a line of text turned by several angles, for the classifier of PP-OCR. It is sure of upright text and
    of text upside down, where its softmax shows nothing of a difference, but not of what lies between.
    """
    upright = Image.fromarray(((text(192, 48, 34, ["anylayer 2026"])[0, 0] + 1) * 127.5).astype(np.uint8))
    lines = [
        np.asarray(upright.rotate(angle, fillcolor=255), np.float32) / 127.5 - 1 for angle in (0, 20, 45, 90, 180)
    ]
    return {"x": np.repeat(np.stack(lines)[:, None], 3, axis=1)}


def line(width: int) -> dict[str, Any]:
    """Return a line of text, as the recognizer of PP-OCR takes it."""
    return {"x": text(width, 48, 34, ["anylayer 2026"])}


def sound(samples: int, rate: int) -> Floats:
    """Return vowels of a voice at 120 Hz that begin and end: harmonics with two formants, float32 in -1..1."""
    t = np.arange(samples) / rate
    wave = np.zeros(samples)
    for k in range(1, 30):
        f = 120 * k
        strength = np.exp(-(((f - 700) / 250) ** 2)) + 0.6 * np.exp(-(((f - 1200) / 300) ** 2)) + 0.02
        wave += strength * np.sin(2 * np.pi * f * t + k)
    loud = np.clip(np.sin(2 * np.pi * 3 * t + 1), 0, 1)
    return np.asarray(0.2 * wave * loud / np.abs(wave).max(), np.float32)


def speech(**more: Any) -> dict[str, Any]:
    """Return a window of 32 ms and the end of the one before it, as silero-vad takes them at 16 kHz."""
    return {"input": sound(576, 16000)[None], "state": np.zeros((2, 1, 128), np.float32), **more}


def features() -> dict[str, Any]:
    """Return three rows of 40 frequencies as integers, as the wake word networks of pymicro-wakeword take them."""
    integers = np.random.default_rng(0).integers(-128, 128, (1, 3, 40))
    return {"serving_default_input_audio:0": integers.astype(np.int8)}


def source_bytes() -> dict[str, Any]:
    """Return the beginning and the end of a Python file, as magika takes them."""
    data = (ROOT / "examples" / "hed" / "make_model.py").read_bytes()
    return {"bytes": np.array([*data[:1024], *data[-1024:]], np.int32)[None]}


def notes() -> Floats:
    """Return two seconds of three notes at 22,050 Hz with noise, (1, 43844, 1), as basic-pitch takes them."""
    t = np.arange(43844) / 22050
    tones = sum(np.sin(2 * np.pi * f * t) / k for f in (220.0, 277.2, 329.6) for k in (1, 2, 3))
    noise = np.random.default_rng(0).standard_normal(t.size)
    return (0.1 * tones + 0.003 * noise).astype(np.float32)[None, :, None]
