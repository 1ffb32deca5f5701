"""ROIAlign."""

import numpy as np

from tests.layers.harness import case, noise, ramp, reads, rejects

X = ramp(1, 1, 4, 4)
WHOLE = [[0.0, 0.0, 0.0, 3.0, 3.0]]
POOL = {"pooled_h": 2, "pooled_w": 2}


def aligned(x, rois, ph, pw, scale, ratio, shift=0.0, least=1.0):
    """Compute the C code sample by sample in float32."""
    f = np.float32
    _, c, h, w = x.shape
    out = np.zeros((len(rois), c, ph, pw), f)

    def tap(image, y, xx):
        if y < -1 or y > h or xx < -1 or xx > w:
            return np.zeros(c, f)
        y, xx = max(y, f(0)), max(xx, f(0))
        y0, x0 = min(int(y), h - 1), min(int(xx), w - 1)
        y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
        a, b = (f(0) if y0 == h - 1 else y - f(y0)), (f(0) if x0 == w - 1 else xx - f(x0))
        p = x[image]
        return (1 - a) * ((1 - b) * p[:, y0, x0] + b * p[:, y0, x1]) + a * (
            (1 - b) * p[:, y1, x0] + b * p[:, y1, x1]
        )

    for k, roi in enumerate(np.asarray(rois, f)):
        x1, y1, x2, y2 = roi[1:] * f(scale) - f(shift)
        rh, rw = max(y2 - y1, f(least)), max(x2 - x1, f(least))
        bh, bw = rh / f(ph), rw / f(pw)
        gh, gw = (ratio, ratio) if ratio > 0 else (int(np.ceil(bh)), int(np.ceil(bw)))
        for i in range(ph):
            for j in range(pw):
                total = np.zeros(c, f)
                for iy in range(gh):
                    for ix in range(gw):
                        y = y1 + f(i) * bh + (f(iy) + f(0.5)) * bh / f(gh)
                        total += tap(int(roi[0]), y, x1 + f(j) * bw + (f(ix) + f(0.5)) * bw / f(gw))
                out[k, :, i, j] = total / max(gh * gw, 1)
    return out


MAP = noise(2, 3, 10, 12)
ROIS = np.array(
    [
        [0, 1.3, 2.1, 30.7, 25.2],
        [1, 5.0, 0.0, 44.0, 38.0],
        [1, -6.0, -3.0, 9.0, 60.0],
        [0, 20.2, 20.1, 20.9, 20.3],
        [0, 47.0, 39.0, 47.5, 39.5],
    ],
    np.float32,
)
FEW = {"pooled_h": 3, "pooled_w": 2, "spatial_scale": 0.25}


def golden(mode, values):
    return case(
        "ROIAlign", {**POOL, "roi_end_mode": mode}, dialect="ascend", inputs=[X, WHOLE], outputs=[[[values]]]
    )


test_mode_0 = golden(0, [[3.75, 5.25], [9.75, 11.25]])
test_mode_1 = golden(1, [[5, 6.75], [12, 13.75]])
test_mode_2 = golden(2, [[1.5625, 3], [7.3125, 8.75]])
test_mode_3 = golden(3, [[1.5625, 3], [7.3125, 8.75]])
test_ascend_takes_two = case(
    "ROIAlign", FEW, dialect="ascend", inputs=[MAP, ROIS], outputs=[aligned(MAP, ROIS, 3, 2, 0.25, 2)]
)
test_cambricon_adapts = case(
    "ROIAlign", FEW, dialect="cambricon", inputs=[MAP, ROIS], outputs=[aligned(MAP, ROIS, 3, 2, 0.25, 0)]
)
test_ratio_tells_no_dialect = case(
    "ROIAlign", {**FEW, "sampling_ratio": 3}, inputs=[MAP, ROIS], outputs=[aligned(MAP, ROIS, 3, 2, 0.25, 3)]
)
test_adaptive_ratio = case(
    "ROIAlign", {**FEW, "sampling_ratio": -1}, inputs=[MAP, ROIS], outputs=[aligned(MAP, ROIS, 3, 2, 0.25, 0)]
)
ONE_FURTHER = ROIS + np.array([0, 0, 0, 1, 1], np.float32)
test_mode_1_adaptive = case(
    "ROIAlign",
    {**FEW, "sampling_ratio": 0, "roi_end_mode": 1},
    inputs=[MAP, ROIS],
    outputs=[aligned(MAP, ONE_FURTHER, 3, 2, 0.25, 0)],
)
test_mode_2_any_size = case(
    "ROIAlign",
    {**FEW, "roi_end_mode": 2},
    inputs=[MAP, ROIS],
    outputs=[aligned(MAP, ROIS, 3, 2, 0.25, 2, 0.5, 0.0)],
)
test_mode_3_least_size = case(
    "ROIAlign", {**FEW, "roi_end_mode": 3}, inputs=[MAP, ROIS], outputs=[aligned(MAP, ROIS, 3, 2, 0.25, 2, 0.5)]
)
ONE_BIN = {"pooled_h": 1, "pooled_w": 1, "spatial_scale": 0.25, "roi_end_mode": 3, "sampling_ratio": 0}
test_mode_3_one_bin = case(
    "ROIAlign", ONE_BIN, inputs=[MAP, ROIS[3:]], outputs=[aligned(MAP, ROIS[3:], 1, 1, 0.25, 0, 0.5)]
)
test_rois_with_trailing_ones = case(
    "ROIAlign",
    {**POOL, "sampling_ratio": 2},
    inputs=[X, np.reshape(WHOLE, (1, 5, 1, 1))],
    outputs=[[[[[3.75, 5.25], [9.75, 11.25]]]]],
)
test_rois_in_a_row = case(
    "ROIAlign",
    {**POOL, "sampling_ratio": 2},
    dialect="cambricon",
    inputs=[X, np.reshape(WHOLE * 2, (1, 2, 1, 5))],
    outputs=[[[[[3.75, 5.25], [9.75, 11.25]]]] * 2],
)

test_ambiguous = rejects(
    "ROIAlign",
    POOL,
    inputs=[X, WHOLE],
    text="'ROIAlign' can mean 3 things, give dialect=...: ascend: Compute the mean of interpolated",
)
test_rejects_dialect_synopsys = rejects(
    "ROIAlign",
    POOL,
    dialect="synopsys",
    inputs=[X, WHOLE],
    text="synopsys-caffe's ROIAlign (the maximum of four fixed samples",
)
test_rejects_roi_end_mode_above_3 = rejects(
    "ROIAlign", {**POOL, "roi_end_mode": 4}, inputs=[X, WHOLE], text="roi_end_mode must lie in 0..3, got 4"
)
test_rejects_pooled_w_of_0 = rejects(
    "ROIAlign",
    {"pooled_h": 2},
    dialect="ascend",
    inputs=[X, WHOLE],
    text="pooled_w must be at least 1, got 0",
)
test_rejects_spatial_scale_of_0 = rejects(
    "ROIAlign",
    {**POOL, "spatial_scale": 0},
    dialect="ascend",
    inputs=[X, WHOLE],
    text="spatial_scale must be positive, got 0",
)
test_rejects_regions_without_image_index = rejects(
    "ROIAlign",
    POOL,
    dialect="ascend",
    inputs=[X, [[0, 0, 3, 3]]],
    text="input 1 must be of shape (K, 5): image, x1, y1, x2, y2, got (1, 4)",
)
test_rejects_regions_as_ascends_proposal_returns_them = rejects(
    "ROIAlign",
    POOL,
    dialect="ascend",
    inputs=[X, ramp(1, 5, 3)],
    text="got (1, 5, 3); bring it there with Permute and Reshape",
)
test_rejects_map_without_4_axes = rejects(
    "ROIAlign", POOL, dialect="ascend", inputs=[X[0], WHOLE], text="must be of shape (N, C, H, W)"
)
test_from_text = reads(
    """layer { name: "r" type: "ROIAlign" bottom: "in0" bottom: "in1" top: "r" roi_align_param {
         pooled_h: 7 pooled_w: 6 spatial_scale: 0.25 roi_end_mode: 1 } }""",
    inputs=2,
    pooled_h=7,
    pooled_w=6,
    spatial_scale=0.25,
    sampling_ratio=2,
    roi_end_mode=1,
)
