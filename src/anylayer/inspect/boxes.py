"""Draw detected boxes, with their classes and scores, on images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.inspect.drawing import colors
from anylayer.network import Array

_THRESHOLD = 0.5
"""The lowest score of a detection that `draw_detections` draws."""
_MAX_DRAWN = 20
"""The number of detections that it draws: more of them hide the image."""


@dataclass(frozen=True)
class Box:
    """A box to draw, in pixels of the image, with a caption and a color (R, G, B)."""

    left: float
    top: float
    right: float
    bottom: float
    caption: str
    color: tuple[int, int, int]


def class_box(corners: Sequence[float], number: int, score: float, label: str = "") -> Box:
    """Return a box (left, top, right, bottom) in pixels, with the color of its class and a caption."""
    red, green, blue = map(int, colors(256)[number % 255 + 1])
    left, top, right, bottom = corners
    return Box(left, top, right, bottom, f"{label or number} {score:.2f}", (red, green, blue))


def draw_detections(image: Array, output: Array) -> tuple[Array, str]:
    """Return an image in BGR order with the detections of an output that has them, and what it shows. Corners are
    relative to the image."""
    rows = output.reshape(-1, 7)
    rows = rows[(rows[:, 0] == 0) & (rows[:, 1] >= 0)]
    likely = rows[rows[:, 2] >= _THRESHOLD]
    height, width = image.shape[:2]
    pixels = np.array([width, height, width, height])
    order = np.argsort(likely[:, 2], kind="stable")[-_MAX_DRAWN:]  # the most likely ones are drawn last, on top
    boxes = [class_box((row[3:] * pixels).tolist(), int(row[1]), float(row[2])) for row in likely[order]]
    drawn = f"{len(boxes)} of {len(rows)} detections, with a score of at least {_THRESHOLD:g}"
    if len(boxes) < len(likely):
        drawn = f"the {len(boxes)} most likely of {len(rows)} detections"
    return draw_boxes(image, boxes), f"{drawn}: class and score"


def draw_boxes(image: Array, boxes: Sequence[Box]) -> Array:
    """Return an image (BGR order) with boxes and their captions drawn on it."""
    from anylayer.libraries.pillow import ImageDraw, ImageFont, from_array

    canvas = from_array(image)
    draw = ImageDraw.Draw(canvas)
    unit = max(1, round(max(canvas.size) / 400))
    font = ImageFont.load_default(size=max(10, 6 * unit + 4))
    for box in boxes:
        left, right = sorted((_within(box.left, canvas.width), _within(box.right, canvas.width)))
        top, bottom = sorted((_within(box.top, canvas.height), _within(box.bottom, canvas.height)))
        draw.rectangle((left, top, right, bottom), outline=box.color, width=unit + 1)
        if not box.caption:
            continue
        x0, y0, x1, y1 = draw.textbbox((0, 0), box.caption, font=font)
        wide, high = x1 - x0 + 2 * unit, y1 - y0 + 2 * unit
        side = min(max(left, 0), max(0, canvas.width - wide))
        base = min(max(top - high if top >= high else top, 0), max(0, canvas.height - high))
        draw.rectangle((side, base, side + wide, base + high), fill=box.color)
        draw.text((side + unit - x0, base + unit - y0), box.caption, fill=_text_color(box.color), font=font)
    return np.ascontiguousarray(np.asarray(canvas)[:, :, ::-1])


def _within(value: float, size: int) -> float:
    """Limit a coordinate to 8 pixels beyond the image. Pillow's time to draw grows with the invisible part."""
    return float(min(max(np.nan_to_num(value), -8.0), size + 8.0))


def _text_color(color: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return black or white, whichever is readable on a background of this color."""
    r, g, b = color
    return (0, 0, 0) if 299 * r + 587 * g + 114 * b > 128_000 else (255, 255, 255)
