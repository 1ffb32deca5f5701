"""OpenCV's functions in pre- and post-processing, and array functions that few layers use."""

from __future__ import annotations

import numpy as np
import pytest

from .boxes import N, boxes_of, scores_of
from .case import wild

cv2 = pytest.importorskip("cv2")


def picture(random, share):
    return [random.integers(0, 256, (24, 32, 3)).astype(np.uint8)]


def gray(random, share):
    return [random.integers(0, 256, (12, 10)).astype(np.uint8)]


def mask(random, share):
    return [random.random((14, 14)).astype(np.float32)]


def sized_boxes(random, share):
    boxes = boxes_of(random)
    boxes[:, 2:] -= boxes[:, :2]
    return boxes, scores_of(random, share)


@wild(picture)
def network_input(image):
    image = cv2.cvtColor(cv2.resize(image, (16, 16)), cv2.COLOR_BGR2RGB)
    return (image.astype(np.float32) / 255).transpose(2, 0, 1)[None]


@wild(picture)
def letterbox(image):
    height, width = image.shape[:2]
    scale = min(20 / height, 20 / width)
    size = round(width * scale), round(height * scale)
    top, left = (20 - size[1]) // 2, (20 - size[0]) // 2
    image = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
    border = (top, 20 - size[1] - top, left, 20 - size[0] - left)
    return cv2.copyMakeBorder(image, *border, cv2.BORDER_CONSTANT, value=(114, 114, 114))


@wild(picture)
def gray_input(image):
    return cv2.cvtColor(image, cv2.COLOR_BGR2GRAY).astype(np.float32)[None, None] / 127.5 - 1


@wild(picture)
def nearest_thumbnail(image):
    return cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_NEAREST)


@wild(mask)
def mask_in_the_image(x):
    return (cv2.resize(x, (31, 25)) > 0.5).astype(np.uint8)


@wild(mask)
def smooth_depth(x):
    depth = cv2.resize(x, (20, 18), interpolation=cv2.INTER_CUBIC)
    low, high = depth.min(), depth.max()
    return (depth - low) / (high - low) if high - low > 1e-6 else np.zeros((18, 20), np.float32)


@wild(gray)
def colors_of_gray(image):
    return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)


@wild(mask)
def reflected_border(x):
    return cv2.copyMakeBorder(x, 2, 2, 3, 3, cv2.BORDER_REFLECT_101)


@wild(mask)
def inside_a_circle(x):
    inside = np.zeros((14, 14), np.uint8)
    cv2.circle(inside, (7, 7), 5, 1, -1)
    return x * inside


@wild(sized_boxes)
def boxes_by_opencv(boxes, scores):
    keep = cv2.dnn.NMSBoxes(boxes, scores, 0.5, 0.45)
    return np.array(keep, dtype=np.int32)


@wild(sized_boxes)
def rows_by_opencv(boxes, scores):
    index = cv2.dnn.NMSBoxes(bboxes=boxes, scores=scores, score_threshold=0.5, nms_threshold=0.3, top_k=20)
    if len(index) > 0:
        return boxes[index][:5]
    return np.zeros((0, 4), np.float32)


def classified_boxes(random, share):
    return boxes_of(random) - 20, scores_of(random, share, classes=3)


@wild(classified_boxes)
def classes_by_opencv(boxes, scores):
    best, labels = np.amax(scores, axis=1), np.argmax(scores, axis=1)
    keep = cv2.dnn.NMSBoxesBatched(boxes.tolist(), best.tolist(), labels.tolist(), 0.5, 0.45)
    rows = np.concatenate([boxes, best[:, None], labels[:, None]], axis=1)
    if len(keep) == 0:
        return np.array([])
    return rows[keep]


@wild(gray)
def thresholded(image):
    return cv2.threshold(image, 100, 1, cv2.THRESH_BINARY)[1]


@wild(gray, "cv2.findContours cannot be recorded")
def contours(image):
    return cv2.findContours(image, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[0][0]


@wild(picture, "interpolation 3 cannot be recorded")
def area_resize(image):
    return cv2.resize(image, (8, 6), interpolation=cv2.INTER_AREA)


@wild(lambda random, share: [random.standard_normal((1, 5, 6, 2)).astype(np.float32)])
def dilated_rows(x):
    x = np.insert(x, np.repeat(np.arange(1, 5), 1), 0, axis=1)
    return np.insert(x, np.repeat(np.arange(1, 6), 1), 0, axis=2)


@wild(lambda random, share: [random.standard_normal((3, 8, 9)).astype(np.float32)])
def peaks_by_strides(heat):
    padded = np.pad(heat, ((0, 0), (1, 1), (1, 1)))
    shape = (3, 8, 9, 3, 3)
    windows = np.lib.stride_tricks.as_strided(padded, shape, padded.strides + padded.strides[1:])
    return heat * (windows.max(axis=(3, 4)) == heat)


@wild(lambda random, share: [random.standard_normal((10, 4)).astype(np.float32)])
def summed_at_indices(x):
    out = np.zeros((5, 4), np.float32)
    np.add.at(out, np.arange(10) // 2, x)
    return out


@wild(lambda random, share: [random.integers(0, 6, 40), random.standard_normal(40)])
def weighted_histogram(places, weights):
    return np.bincount(places, weights=weights, minlength=6)


@wild(lambda random, share: [random.standard_normal(64)])
def complex_spectrum(x):
    z = np.fft.fft(x)
    return np.abs(z), np.angle(z * np.exp(0.5j)), (z * np.conj(z)).real


@wild(lambda random, share: [random.standard_normal((4, 5)), random.integers(0, 2, (4, 5))])
def ignored_in_loss(x, truth):
    keep = truth != 1
    loss = np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0) - x * truth
    return np.sum(loss * keep) / np.maximum(keep.sum(), 1)


@wild(lambda random, share: [(random.standard_normal((5, 2, 2)) + 2 * np.eye(2))])
def corners_mapped_back(matrices):
    return np.linalg.solve(matrices, np.ones((5, 2, 1)))[..., 0], np.linalg.inv(matrices)


@wild(lambda random, share: [random.standard_normal((N, 3))], "cannot be expressed")
def main_direction(points):
    return np.linalg.svd(points - points.mean(axis=0))[2][0]


@wild(lambda random, share: [random.standard_normal((6, 4))])
def interpolated_columns(x):
    places = np.linspace(0, 5, 11)
    low = np.minimum(places.astype(int), 4)
    return x[low] + (places - low)[:, None] * (x[low + 1] - x[low])


@wild(lambda random, share: [random.standard_normal((6, 4)).astype(np.float32)], "draws random numbers")
def noise_added(x):
    return x + np.random.RandomState(3).standard_normal(4).astype(np.float32)


@wild(lambda random, share: [random.standard_normal((6, 4)).astype(np.float32)], "different operators|random")
def dropout(x):
    return x * (np.random.random(x.shape) > 0.5)


@wild(lambda random, share: [(random.random((7, 8, 2)) < share * 0.2).astype(np.uint8)])
def bounds_of_each_mask(masks):
    found = np.zeros((masks.shape[2], 4), np.int32)
    for i in range(masks.shape[2]):
        columns = np.where(masks[:, :, i].any(axis=0))[0]
        rows = np.where(masks[:, :, i].any(axis=1))[0]
        if len(columns):
            left, right = columns[[0, -1]]
            top, bottom = rows[[0, -1]]
            found[i] = np.array([top, left, bottom + 1, right + 1])
        else:
            found[i] = np.array([0, 0, 0, 0])
    return found
