"""Layers: caffe.Layer, classes with OpenCV's contract, and functions like those of PyOp."""

from __future__ import annotations

import numpy as np

import anylayer.caffe as caffe

from .boxes import boxes_of, classified, scored
from .case import wild


@wild(lambda random, share: [random.standard_normal((4, 6)).astype(np.float32)])
class RowSoftmax(caffe.Layer):
    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        x = bottom[0].data
        e = np.exp(x - x.max(axis=1, keepdims=True))
        top[0].data[...] = e / e.sum(axis=1, keepdims=True)


@wild(lambda random, share: [boxes_of(random, 12)], tops=2)
class BoxSizes(caffe.Layer):
    def reshape(self, bottom, top):
        top[0].reshape(bottom[0].data.shape[0], 2)
        top[1].reshape(bottom[0].data.shape[0])

    def forward(self, bottom, top):
        boxes = bottom[0].data
        top[0].data[...] = boxes[:, 2:] - boxes[:, :2]
        top[1].data[...] = np.prod(top[0].data, axis=1)


@wild(scored)
class Confident:
    def __init__(self, params, blobs):
        self.threshold = 0.5

    def getMemoryShapes(self, inputs):
        return [inputs[0]]

    def forward(self, inputs):
        boxes, scores = inputs
        return [boxes[scores > self.threshold]]


@wild(lambda random, share: [random.standard_normal((1, 3, 9, 11)).astype(np.float32)])
class Crop:
    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        x = inputs[0]
        top, left = (x.shape[2] - 6) // 2, (x.shape[3] - 6) // 2
        return [x[:, :, top : top + 6, left : left + 6]]


@wild(lambda random, share: [random.standard_normal((3, 3)).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)])
def inverse(x):
    return np.linalg.inv(x)


@wild(classified)
def proposals(boxes, scores):
    best = scores.max(axis=1)
    order = np.argsort(-best, kind="stable")[:12]
    boxes, best = np.clip(boxes[order], 0, 90), best[order]
    size = boxes[:, 2:] - boxes[:, :2]
    keep = np.where((size >= 4).all(axis=1) & (best > 0.5))[0]
    return np.hstack([np.zeros((len(keep), 1), np.float32), boxes[keep]]), best[keep]


@wild(scored)
def per_level(boxes, scores):
    level = np.clip(np.floor(np.log2(np.sqrt(np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)) / 8)), 0, 2)
    return tuple(boxes[(level == i) & (scores > 0.5)] for i in range(3))


@wild(scored)
def areas_in_order(boxes, scores):
    kept = boxes[scores > 0.5]
    areas = (kept[:, 2] - kept[:, 0]) * (kept[:, 3] - kept[:, 1])
    return kept[np.argsort(areas, kind="stable")]


@wild(classified)
def histogram_of_classes(boxes, scores):
    return np.bincount(np.argmax(scores, axis=1)[scores.max(axis=1) > 0.5], minlength=5)


@wild(scored)
def python_list_of_rows(boxes, scores):
    return np.array([float(s) * 2 for s in scores])
