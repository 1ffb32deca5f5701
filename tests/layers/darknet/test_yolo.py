"""Tests of the sections that decode boxes."""

from __future__ import annotations

from .recorded import as_recorded, refuses

test_sections_match_the_recorded_results = as_recorded("yolo", "Gaussian_yolo", "region", "detection")
YOLO = "[yolo]\nmask=0\nanchors=1,2\nclasses=3\nnum=1\n"
REGION = "[region]\nanchors=1,2\nclasses=3\nnum=1\nsoftmax=1\n"

DETECTION = "[detection]\nclasses=3\nnum=1\nside=3\ncoords=4\n"

test_values_fit_the_cells = refuses(
    DETECTION, "9 cells of 3 classes and 1 boxes of 5 values make 72 values, got 384"
)
test_softmax_of_detection_is_refused = refuses(DETECTION + "softmax=1\n", "softmax=1 is not supported")
test_channels_fit_the_boxes = refuses(YOLO.replace("classes=3", "classes=4"), "make 9 channels, got 8")
test_mask_is_given = refuses(YOLO.replace("mask=0\n", ""), "parameter 'mask' is missing")
test_mask_names_anchors = refuses(YOLO.replace("mask=0", "mask=1"), "mask (1,) must lie in 0..0")
test_anchors_are_pairs = refuses(YOLO.replace("anchors=1,2", "anchors=1"), "num=1 needs 2 anchors, got 1")
test_region_needs_softmax = refuses(REGION.replace("softmax=1", "softmax=0"), "softmax must be 1, got 0")
test_region_has_4_coordinates = refuses(REGION + "coords=5\n", "coords=5 is not supported, only coords=4")
