"""Resample."""

import numpy as np

from tests.layers.harness import case, noise, ramp, reads, rejects

F = np.float32


def cubic(x):
    x = abs(x)
    if x <= 1:
        return x * x * (F(1.5) * x - F(2.5)) + F(1)
    return x * (x * (F(-0.5) * x + F(2.5)) - F(4)) + F(2) if x < 2 else F(0)


def triangle(x):
    return max(F(0), F(1) - abs(x))


def away(v):
    return int(np.floor(abs(v) + F(0.5)) * np.sign(v))


def filtered(x, rows, columns, weight=triangle, support=2, antialias=True):
    """Compute the kernel of the reference one pixel at a time."""
    n, c, h, w = x.shape
    y = np.zeros((n, c, rows, columns), F)
    fx, fy = F(w) / F(columns), F(h) / F(rows)
    wide = antialias and (fx > 1 or fy > 1)
    ax, ay = (F(1) / fx, F(1) / fy) if wide else (F(1), F(1))
    rx = 2 if fx < 1 else int(np.ceil(F(support) / ax))
    ry = 2 if fy < 1 else int(np.ceil(F(support) / ay))
    for i in range(rows):
        for j in range(columns):
            xi = F(j) * fx + fy / F(2) - F(0.5)
            yi = F(i) * fy + fx / F(2) - F(0.5)
            total, weights = np.zeros((n, c), F), F(0)
            for r in range(max(away(yi) - ry, 0), min(away(yi) + ry, h - 1) + 1):
                for s in range(max(away(xi) - rx, 0), min(away(xi) + rx, w - 1) + 1):
                    v = ax * weight(ax * (xi - F(s))) * ay * weight(ay * (yi - F(r)))
                    total = total + v * x[:, :, r, s]
                    weights += v
            y[:, :, i, j] = total / weights if weights else 0
    return y


X = noise(2, 2, 5, 6)
test_linear_up = case("Resample", {"height": 10, "width": 12}, inputs=[X], outputs=[filtered(X, 10, 12)])
test_linear_down = case("Resample", {"height": 2, "width": 3}, inputs=[X], outputs=[filtered(X, 2, 3)])
test_linear_down_without_antialias = case(
    "Resample",
    {"height": 2, "width": 3, "antialias": False},
    inputs=[X],
    outputs=[filtered(X, 2, 3, antialias=False)],
)
test_cubic_up = case(
    "Resample", {"height": 9, "width": 13, "type": "CUBIC"}, inputs=[X], outputs=[filtered(X, 9, 13, cubic, 4)]
)
test_cubic_down = case(
    "Resample", {"height": 3, "width": 4, "type": "CUBIC"}, inputs=[X], outputs=[filtered(X, 3, 4, cubic, 4)]
)
test_factors_cross = case("Resample", {"height": 5, "width": 12}, inputs=[X], outputs=[filtered(X, 5, 12)])
test_nearest_up = case(
    "Resample",
    {"height": 4, "width": 6, "type": "NEAREST"},
    inputs=[ramp(1, 1, 2, 3)],
    outputs=[ramp(1, 1, 2, 3).repeat(2, 2).repeat(2, 3)],
)
test_nearest_down = case(
    "Resample",
    {"height": 2, "width": 2, "type": "NEAREST"},
    inputs=[ramp(1, 1, 6, 6)],
    outputs=[[[[[7, 10], [25, 28]]]]],
)
test_by_number = case(
    "Resample", {"height": 2, "width": 2, "type": 1}, inputs=[ramp(1, 1, 2, 2)], outputs=[ramp(1, 1, 2, 2)]
)
test_like_input_1 = case("Resample", inputs=[X, ramp(1, 7, 10, 12)], outputs=[filtered(X, 10, 12)])
test_factor = case("Resample", {"factor": 2}, inputs=[X], outputs=[filtered(X, 10, 12)])

test_needs_a_size = rejects(
    "Resample", inputs=[X], text="the size is missing: give height and width, or a second input"
)
test_rejects_factor_that_gives_fractional_size = rejects(
    "Resample", {"factor": 1.5}, inputs=[X], text="factor=1.5 must give integer sizes, got 7.5 x 9 for 5 x 6"
)
test_rejects_type_area = rejects(
    "Resample",
    {"type": "AREA", "height": 2, "width": 2},
    inputs=[X],
    text="type AREA is not defined by the reference",
)
test_rejects_height_without_width = rejects(
    "Resample", {"height": 2}, inputs=[X], text="the output must have 1..32768 rows and columns, got 2 x 0"
)
test_rejects_factors_that_differ_too_much_for_nearest = rejects(
    "Resample",
    {"type": "NEAREST", "height": 1, "width": 12},
    inputs=[X],
    text="the height and the width must change by similar factors",
)
test_from_text = reads(
    """layer { name: "up" type: "Resample" bottom: "in0" top: "up"
         resample_param { antialias: false width: 7 height: 9 type: NEAREST } }""",
    antialias=False,
    width=7,
    height=9,
    type="NEAREST",
)
