"""Draw detections on images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.inspect.drawing import Box
from anylayer.libraries.pillow import ImageDraw, ImageFont, from_array
from anylayer.network import Array


def draw_boxes(image: Array, boxes: Sequence[Box]) -> Array:
    """Return an image (BGR order) with boxes and their captions drawn on it."""
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
