# mypy: disable-error-code="no-untyped-def"
"""Functions after detectors: decoding, overlaps, selection, NMS, keypoints and masks."""

from __future__ import annotations

import numpy as np

from benchmarks.functions import Case, boxes, noise


def decode_boxes(deltas, priors):
    centers = priors[:, :2] + deltas[:, :2] * 0.1 * priors[:, 2:]
    sizes = priors[:, 2:] * np.exp(deltas[:, 2:] * 0.2)
    return np.concatenate((centers - sizes / 2, centers + sizes / 2), axis=1)


def pairwise_iou(a, b):
    left = np.maximum(a[:, None, 0], b[None, :, 0])
    top = np.maximum(a[:, None, 1], b[None, :, 1])
    right = np.minimum(a[:, None, 2], b[None, :, 2])
    bottom = np.minimum(a[:, None, 3], b[None, :, 3])
    common = np.maximum(right - left, 0) * np.maximum(bottom - top, 0)
    areas_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    areas_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return common / (areas_a[:, None] + areas_b[None, :] - common)


def decode_grid(x):
    h, w = x.shape[1:]
    y = x.reshape(3, 85, h, w).transpose(0, 2, 3, 1)
    y = 1 / (1 + np.exp(-y))
    columns = np.arange(w).astype(np.float32).reshape(1, 1, w)
    rows = np.arange(h).astype(np.float32).reshape(1, h, 1)
    out = y.copy()
    out[:, :, :, 0] = (y[:, :, :, 0] * 2 - 0.5 + columns) * 16
    out[:, :, :, 1] = (y[:, :, :, 1] * 2 - 0.5 + rows) * 16
    out[:, :, :, 2:4] = (y[:, :, :, 2:4] * 2) ** 2 * 32
    return out.reshape(-1, 85)


def decode_distribution(x):
    y = x.reshape(-1, 4, 16)
    e = np.exp(y - y.max(axis=2, keepdims=True))
    return (e * np.arange(16).astype(np.float32)).sum(axis=2) / e.sum(axis=2)


def best_class(x):
    scores = x[:, 4:5] * x[:, 5:]
    return np.argmax(scores, axis=1), np.max(scores, axis=1)


def keypoints_of_heatmaps(x):
    k, h, w = x.shape
    flat = x.reshape(k, h * w)
    at = np.argmax(flat, axis=1)
    row, column = at // w, at % w
    inner_row, inner_column = np.clip(row, 1, h - 2), np.clip(column, 1, w - 2)
    each = np.arange(k)
    dx = np.sign(x[each, inner_row, inner_column + 1] - x[each, inner_row, inner_column - 1])
    dy = np.sign(x[each, inner_row + 1, inner_column] - x[each, inner_row - 1, inner_column])
    points = np.stack((column + dx * 0.25, row + dy * 0.25), axis=1)
    return points.astype(np.float32), np.max(flat, axis=1)


def masks_of_prototypes(coefficients, prototypes, found):
    n, (c, h, w) = coefficients.shape[0], prototypes.shape
    masks = 1 / (1 + np.exp(-(coefficients @ prototypes.reshape(c, h * w)).reshape(n, h, w)))
    columns = np.arange(w).astype(np.float32).reshape(1, 1, w)
    rows = np.arange(h).astype(np.float32).reshape(1, h, 1)
    x1, y1 = found[:, 0].reshape(n, 1, 1) / 4, found[:, 1].reshape(n, 1, 1) / 4
    x2, y2 = found[:, 2].reshape(n, 1, 1) / 4, found[:, 3].reshape(n, 1, 1) / 4
    return masks * ((columns >= x1) & (columns < x2) & (rows >= y1) & (rows < y2))


def confident_rows(x):
    scores = x[:, 4:].max(axis=1)
    keep = scores > 0.6
    return x[keep, :4], scores[keep]


def ctc_path(x):
    best = np.argmax(x, axis=1)
    first = np.ones(best.shape, np.bool_)
    first[1:] = best[1:] != best[:-1]
    return best[first & (best > 0)]


def greedy_nms(dets):
    x1, y1, x2, y2 = dets[:, 0], dets[:, 1], dets[:, 2], dets[:, 3]
    areas = (x2 - x1) * (y2 - y1)
    order = np.argsort(-dets[:, 4])
    kept = []
    while order.size > 0:
        i = order[0]
        kept.append(i)
        rest = order[1:]
        width = np.maximum(np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]), 0)
        height = np.maximum(np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]), 0)
        common = width * height
        order = rest[common / (areas[i] + areas[rest] - common) <= 0.5]
    return np.array(kept)


def fast_nms(dets):
    d = dets[np.argsort(-dets[:, 4])]
    left = np.maximum(d[:, None, 0], d[None, :, 0])
    top = np.maximum(d[:, None, 1], d[None, :, 1])
    right = np.minimum(d[:, None, 2], d[None, :, 2])
    bottom = np.minimum(d[:, None, 3], d[None, :, 3])
    common = np.maximum(right - left, 0) * np.maximum(bottom - top, 0)
    areas = (d[:, 2] - d[:, 0]) * (d[:, 3] - d[:, 1])
    overlaps = np.triu(common / (areas[:, None] + areas[None, :] - common), 1)
    return d[:, 4] * (overlaps.max(axis=0) <= 0.5)


def proposals(deltas, anchors, scores):
    sizes = anchors[:, 2:] - anchors[:, :2]
    centers = anchors[:, :2] + sizes / 2 + deltas[:, :2] * sizes
    sizes = sizes * np.exp(np.minimum(deltas[:, 2:], 4))
    found = np.clip(np.concatenate((centers - sizes / 2, centers + sizes / 2), axis=1), 0, 639)
    order = np.argsort(-scores)[:300]
    return found[order], scores[order]


def greedy_flags(dets):
    n = dets.shape[0]
    order = np.argsort(-dets[:, 4])
    areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    suppressed = np.zeros(n, np.bool_)
    for a in range(n):
        i = order[a]
        if suppressed[i]:
            continue
        for b in range(a + 1, n):
            j = order[b]
            width = min(dets[i, 2], dets[j, 2]) - max(dets[i, 0], dets[j, 0])
            height = min(dets[i, 3], dets[j, 3]) - max(dets[i, 1], dets[j, 1])
            if width > 0 and height > 0:
                common = width * height
                if common > 0.5 * (areas[i] + areas[j] - common):
                    suppressed[j] = True
    return ~suppressed


def proposal_layer(dets):
    x1, y1, x2, y2 = dets[:, 0], dets[:, 1], dets[:, 2], dets[:, 3]
    areas = (x2 - x1) * (y2 - y1)
    order = np.argsort(-dets[:, 4])
    kept = []
    while order.size > 0:
        i = order[0]
        kept.append(i)
        rest = order[1:]
        width = np.maximum(np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]), 0)
        height = np.maximum(np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]), 0)
        common = width * height
        order = rest[common / (areas[i] + areas[rest] - common) <= 0.7]
    return dets[np.array(kept)[:300]]


def soft_nms(dets):
    areas = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    scores = dets[:, 4].copy()
    kept = np.zeros(100, np.int64)
    found = np.zeros(100, np.float32)
    for k in range(100):
        i = np.argmax(scores)
        if scores[i] < 0.05:
            break
        kept[k] = i
        found[k] = scores[i]
        width = np.minimum(dets[i, 2], dets[:, 2]) - np.maximum(dets[i, 0], dets[:, 0])
        height = np.minimum(dets[i, 3], dets[:, 3]) - np.maximum(dets[i, 1], dets[:, 1])
        common = np.maximum(width, 0) * np.maximum(height, 0)
        overlap = common / (areas[i] + areas - common)
        scores *= np.exp(-(overlap * overlap) / np.float32(0.5))
        scores[i] = 0
    return kept, found


def yolo_boxes(x):
    sizes = np.array([[10.0, 13.0], [16.0, 30.0], [33.0, 23.0]]).astype(np.float32)
    rows, columns = x.shape[1], x.shape[2]
    found = np.zeros((3 * rows * columns, 6), np.float32)
    at = 0
    for a in range(3):
        for r in range(rows):
            for c in range(columns):
                cell = x[a * 85 : a * 85 + 85, r, c]
                label = np.argmax(cell[5:])
                score = 1 / (1 + np.exp(-cell[4])) * (1 / (1 + np.exp(-cell[5 + label])))
                if score > 0.5:
                    found[at, 0] = (c + 1 / (1 + np.exp(-cell[0]))) * 8
                    found[at, 1] = (r + 1 / (1 + np.exp(-cell[1]))) * 8
                    found[at, 2] = np.exp(cell[2]) * sizes[a, 0]
                    found[at, 3] = np.exp(cell[3]) * sizes[a, 1]
                    found[at, 4] = score
                    found[at, 5] = label
                    at += 1
    return found, np.array([at])


CASES = [
    Case(decode_boxes, lambda r: [r.standard_normal((16800, 4), np.float32), r.random((16800, 4), np.float32)]),
    Case(pairwise_iou, boxes(1000, 300)),
    Case(decode_grid, noise((255, 40, 40))),
    Case(decode_distribution, noise((8400, 64))),
    Case(best_class, lambda r: [r.random((8400, 85), np.float32)]),
    Case(keypoints_of_heatmaps, noise((17, 96, 72))),
    Case(
        masks_of_prototypes,
        lambda r: [r.standard_normal(s, np.float32) for s in ((20, 32), (32, 160, 160))] + [*boxes(20)(r)],
    ),
    Case(confident_rows, lambda r: [r.random((8400, 6), np.float32)]),
    Case(ctc_path, noise((160, 97))),
    Case(greedy_nms, boxes(400, scores=True)),
    Case(fast_nms, boxes(400, scores=True)),
    Case(
        proposals,
        lambda r: [r.standard_normal((8000, 4), np.float32) * 0.1, *boxes(8000)(r), *noise((8000,))(r)],
    ),
    Case(greedy_flags, boxes(200, scores=True)),
    Case(proposal_layer, boxes(6000, scores=True)),
    Case(soft_nms, boxes(1000, scores=True)),
    Case(yolo_boxes, noise((255, 26, 26))),
]
