"""Draw picture.png, the demo's input: a lighthouse, a boat, hills, brick, waves, pebbles and lettering.

    python examples/hed/draw_picture.py examples/hed/picture.png

The picture has 481 x 321 pixels, the size HED was trained on. It is drawn four times as large and scaled down, so
that edges are smooth.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

WIDTH, HEIGHT, FACTOR = 481, 321, 4
HORIZON = 176
Point = tuple[float, float]
Point3 = tuple[float, float, float]


class Canvas:
    """An ImageDraw whose coordinates are the picture's pixels."""

    def __init__(self, image: Image.Image) -> None:
        self.draw = ImageDraw.Draw(image)

    def polygon(self, points: list[Point], fill: str) -> None:
        self.draw.polygon([(x * FACTOR, y * FACTOR) for x, y in points], fill)

    def box(self, x0: float, y0: float, x1: float, y1: float, fill: str) -> None:
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], fill)

    def disc(self, x: float, y: float, rx: float, ry: float, fill: str) -> None:
        self.draw.ellipse([(x - rx) * FACTOR, (y - ry) * FACTOR, (x + rx) * FACTOR, (y + ry) * FACTOR], fill)

    def line(self, points: list[Point], fill: str, width: float) -> None:
        scaled = [(x * FACTOR, y * FACTOR) for x, y in points]
        self.draw.line(scaled, fill, round(width * FACTOR), joint="curve")

    def text(self, x: float, y: float, text: str, fill: str, size: float) -> None:
        font = ImageFont.load_default(size * FACTOR)
        self.draw.text((x * FACTOR, y * FACTOR), text, fill, font, anchor="mm")


def gradient(top: Point3, bottom: Point3) -> Image.Image:
    """Return a canvas whose colour fades from `top` to `bottom`."""
    t = np.linspace(0, 1, HEIGHT * FACTOR)[:, None, None]
    rows = np.array(top) * (1 - t) + np.array(bottom) * t
    return Image.fromarray(np.broadcast_to(rows, (HEIGHT * FACTOR, WIDTH * FACTOR, 3)).round().astype(np.uint8))


def wave(base: float, parts: list[Point3], end: float) -> list[Point]:
    """Return the area between a sum of sines (amplitude, length, phase) and the line y = `end`."""
    xs = np.linspace(-2, WIDTH + 2, 160)
    ys = base - sum(a * np.sin(2 * np.pi * (xs / length + phase)) for a, length, phase in parts)
    return [*zip(xs.tolist(), ys.tolist()), (WIDTH + 2, end), (-2, end)]


def sky(c: Canvas) -> None:
    c.disc(318, 92, 31, 31, "#fff1b8")
    for x, y, s in [(95, 46, 1.0), (236, 36, 0.7), (424, 56, 1.1)]:
        for dx, dy, r in [(-24, 4, 11), (-8, -4, 16), (12, 0, 13), (27, 5, 9)]:
            c.disc(x + dx * s, y + dy * s, r * s, r * s, "#f4f7fa")
        c.box(x - 26 * s, y + 4 * s, x + 29 * s, y + 14 * s, "#f4f7fa")
    for x, y in [(196, 78), (216, 68), (379, 118)]:
        c.line([(x - 8, y - 4), (x - 3, y - 5), (x, y), (x + 3, y - 5), (x + 8, y - 4)], "#30485e", 1.4)


def hills(c: Canvas) -> None:
    c.polygon(wave(140, [(16, 260, 0.62), (7, 95, 0.1)], HORIZON), "#7f9fb8")
    c.polygon(wave(158, [(11, 190, 0.15), (5, 70, 0.4)], HORIZON), "#5b8487")


def sea(c: Canvas) -> None:
    c.box(-2, HORIZON, WIDTH + 2, HEIGHT, "#2f6c94")
    for row in range(9):
        y = HORIZON + 8 + row * (6 + row * 1.1)
        length = 14 + row * 4
        for i in range(-1, int(WIDTH / length) + 2):
            x = (i + 0.5 * (row % 2)) * length
            points = [
                (x + length * t, y - (1 + row * 0.4) * np.sin(np.pi * t)) for t in np.linspace(0.15, 0.85, 9)
            ]
            c.line(points, "#69a3c3", 0.9 + row * 0.12)


def boat(c: Canvas) -> None:
    c.polygon([(296, 212), (392, 212), (376, 234), (314, 234)], "#7c2f2b")
    c.polygon([(299, 216), (389, 216), (386, 221), (302, 221)], "#f3e9d6")
    c.line([(342, 212), (342, 104)], "#3a2a20", 2.6)
    c.polygon([(346, 110), (346, 204), (394, 204)], "#fbf6ea")
    c.polygon([(338, 120), (338, 204), (301, 204)], "#e0873d")
    c.polygon([(342, 104), (342, 94), (362, 99)], "#c23b33")


def headland(c: Canvas) -> None:
    c.polygon(
        [
            (-2, 214),
            (30, 204),
            (74, 200),
            (132, 203),
            (176, 214),
            (205, 232),
            (222, 258),
            (250, 276),
            (262, 322),
            (-2, 322),
        ],
        "#57604a",
    )
    c.polygon(
        [(-2, 208), (30, 198), (74, 194), (132, 197), (176, 208), (203, 226), (170, 220), (96, 209), (-2, 222)],
        "#8fae5d",
    )


def lighthouse(c: Canvas) -> None:
    def half(y: float) -> float:
        return 13 + (y - 62) * 0.062

    bands = [62, 90, 118, 146, 174, 201]
    for i, (y0, y1) in enumerate(pairwise(bands)):
        points = [(62 - half(y0), y0), (62 + half(y0), y0), (62 + half(y1), y1), (62 - half(y1), y1)]
        c.polygon(points, "#c8352e" if i % 2 == 0 else "#f7f4ee")
    c.box(42, 56, 82, 63, "#2c3440")
    c.box(51, 36, 73, 56, "#ffe27a")
    for x in (51, 62, 73):
        c.line([(x, 36), (x, 56)], "#2c3440", 1.8)
    c.polygon([(46, 37), (78, 37), (62, 20)], "#8f2722")
    c.disc(62, 19, 2.6, 2.6, "#2c3440")
    for y in (104, 160):
        c.box(58, y - 6, 66, y + 6, "#2c3440")


def cottage(c: Canvas) -> None:
    c.box(108, 160, 172, 212, "#b2694a")
    for row in range(7):
        y = 162.5 + row * 7
        c.line([(108, y + 7), (172, y + 7)], "#d9a98c", 0.9)
        for i in range(9):
            x = 108 + i * 8 + 4 * (row % 2)
            if 108 < x < 172:
                c.line([(x, y), (x, y + 7)], "#d9a98c", 0.9)
    c.polygon([(100, 162), (140, 128), (180, 162)], "#4a3b45")
    c.box(156, 130, 166, 152, "#8a4a37")
    c.box(116, 174, 132, 190, "#e9f2f4")
    c.line([(124, 174), (124, 190)], "#4a3b45", 1.4)
    c.line([(116, 182), (132, 182)], "#4a3b45", 1.4)
    c.box(146, 180, 162, 212, "#35506b")
    c.disc(158, 197, 1.5, 1.5, "#f0c95a")


def beach(c: Canvas) -> None:
    c.polygon(wave(286, [(6, 330, 0.2), (3, 120, 0.7)], HEIGHT + 2), "#dcc79a")
    random = np.random.default_rng(4)
    for _ in range(190):
        x, y = random.uniform(0, WIDTH), random.uniform(296, HEIGHT)
        r = random.uniform(1.2, 3.4)
        c.disc(x, y, r * 1.3, r, str(random.choice(["#b39c74", "#8f8474", "#efe2c2", "#a58a6b"])))


def sign(c: Canvas) -> None:
    for x in (288, 420):
        c.box(x - 4, 258, x + 4, 318, "#5d4330")
    c.box(264, 246, 444, 290, "#f6e3b4")
    c.line([(267, 249), (441, 249), (441, 287), (267, 287), (267, 249)], "#5d4330", 2)
    c.text(354, 266.5, "anylayer", "#29323f", 34)


def picture() -> Image.Image:
    """Draw the whole scene."""
    image = gradient((104, 156, 205), (240, 222, 196))
    canvas = Canvas(image)
    for part in (sky, hills, sea, headland, lighthouse, cottage, boat, beach, sign):
        part(canvas)
    small = image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    return small.filter(ImageFilter.GaussianBlur(0.4))


if __name__ == "__main__":
    picture().save(sys.argv[1], optimize=True)
