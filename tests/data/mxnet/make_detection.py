"""Make detection.npz: networks of single operators that detect and sample, and what MXNet computes on a CPU.

python make_detection.py    (see recording.py)
"""

from pathlib import Path

import mxnet as mx
import numpy as np
from recording import F, W, case, network, noise, save


def uniform(*shape, seed=0, low=0.0, high=1.0):
    return np.random.RandomState(seed).uniform(low, high, shape).astype(F)


def boxes(count, seed=0, scale=1.0, side=0.3):
    """Return (count, 4) corners of boxes of which many overlap."""
    centre, size = uniform(count, 2, seed=seed), uniform(count, 2, seed=seed + 1, low=0.05, high=side)
    return (np.concatenate([centre - size, centre + size], axis=1) * scale).astype(F)


def priors():
    x = np.zeros((2, 3, 3, 5), F)
    for title, how in (
        ("default", {}),
        ("sizes", {"sizes": (0.2, 0.35, 0.5)}),
        ("ratios", {"sizes": (0.3,), "ratios": (1, 2, 0.5, 3, 0.33)}),
        ("first ratio", {"sizes": (0.3, 0.4), "ratios": (2, 0.5)}),
        ("clip", {"sizes": (0.9, 0.1), "ratios": (1, 2), "clip": True}),
        ("steps", {"sizes": (0.3,), "steps": (0.3, 0.15)}),
        ("offsets", {"sizes": (0.3,), "offsets": (0.25, 0.75)}),
        (
            "all",
            {"sizes": (0.88, 0.961), "ratios": (1, 2, 0.5), "clip": True, "steps": (0.4, 0.2), "offsets": (0, 1)},
        ),
    ):
        case(f"_contrib_MultiBoxPrior {title}", [x], **how)


def detections():
    anchors = boxes(40, seed=3)[None]
    n, c = 2, 4
    probabilities = mx.nd.softmax(mx.nd.array(noise(n, c, 40, seed=5, scale=2)), axis=1).asnumpy()
    locations = noise(n, 160, seed=6, scale=0.7)
    inputs = {"scores": probabilities, "locations": locations, "anchors": anchors}
    tied = np.round(probabilities * 4).astype(F) / 4  # many equal scores, of anchors and of classes
    twice = np.concatenate([anchors[:, :20]] * 2, axis=1)  # boxes whose overlap is 1
    halves = np.stack([np.array([i, 0, i + 2, 1], F) / 64 for i in range(40)])[None]  # overlaps of exactly 1/3
    zero = np.zeros_like(locations)
    for title, given, how in (
        ("default", inputs, {}),
        ("threshold", inputs, {"threshold": 0.5}),
        ("no detection", inputs, {"threshold": 1.5}),
        ("none in one image", {**inputs, "scores": probabilities * np.array([0.2, 1], F).reshape(2, 1, 1)},
         {"threshold": 0.4}),
        ("no clip", inputs, {"clip": False, "nms_threshold": 0.3}),
        ("force", inputs, {"force_suppress": True, "nms_threshold": 0.3}),
        ("top k", inputs, {"nms_topk": 7, "nms_threshold": 0.3}),
        ("top 1", inputs, {"nms_topk": 1}),
        ("top k of few", inputs, {"nms_topk": 30, "threshold": 0.6}),
        ("top k force", inputs, {"nms_topk": 9, "force_suppress": True, "nms_threshold": 0.2}),
        ("variances", inputs, {"variances": (0.2, 0.3, 0.1, 0.4), "nms_threshold": 0.45}),
        ("background", inputs, {"background_id": 1}),
        ("no background", inputs, {"background_id": -1}),
        ("no nms", inputs, {"nms_threshold": -1}),
        ("nms at 0", inputs, {"nms_threshold": 0, "nms_topk": 5}),
        ("nms above 1", inputs, {"nms_threshold": 1.1}),
        ("nms at 1", {**inputs, "locations": zero, "anchors": twice}, {"nms_threshold": 1}),
        ("ties", {**inputs, "scores": tied}, {"threshold": 0.25, "nms_threshold": 0.3}),
        ("ties top k", {**inputs, "scores": tied}, {"threshold": 0.25, "nms_topk": 11, "nms_threshold": 0.3}),
        ("equal to the threshold", {"scores": tied, "locations": zero, "anchors": halves},
         {"threshold": 0.25, "nms_threshold": 0.3333333432674408, "force_suppress": True}),
        ("negative scores", {**inputs, "scores": probabilities - F(0.5)}, {"threshold": -0.3}),
        ("scores below -1", {**inputs, "scores": probabilities - F(1.5)}, {"threshold": -3}),
        ("one class", {**inputs, "scores": probabilities[:, 2:]}, {"threshold": 0.3}),
        ("anchors without area", {**inputs, "anchors": anchors[..., [2, 1, 0, 3]]}, {"clip": False}),
    ):  # fmt: skip
        case(f"_contrib_MultiBoxDetection {title}", [*given.values()], **how)


def proposals():
    a, h, w = 4, 5, 6
    how = {"scales": (2, 4), "ratios": (0.5, 1), "feature_stride": 16, "rpn_min_size": 4}
    for kind, n in (("_contrib_Proposal", 1), ("_contrib_MultiProposal", 2)):
        scores = uniform(n, 2 * a, h, w, seed=1)
        deltas = noise(n, 4 * a, h, w, seed=2, scale=0.3)
        info = np.array([[80, 96, 1], [70, 60, 2]], F)[:n]
        inputs = {"scores": scores, "deltas": deltas, "info": info}
        for title, given, more in (
            ("plain", inputs, {"rpn_post_nms_top_n": 20}),
            ("scores", inputs, {"rpn_post_nms_top_n": 20, "output_score": True}),
            ("fewer before", inputs, {"rpn_pre_nms_top_n": 30, "rpn_post_nms_top_n": 12, "output_score": True}),
            ("all before", inputs, {"rpn_pre_nms_top_n": -1, "rpn_post_nms_top_n": 10}),
            ("repeated", inputs,
             {"rpn_pre_nms_top_n": 9, "rpn_post_nms_top_n": 25, "output_score": True, "threshold": 0.2}),
            ("threshold", inputs, {"threshold": 0.3, "rpn_post_nms_top_n": 15}),
            ("iou loss", {**inputs, "deltas": deltas * F(20)}, {"iou_loss": True, "rpn_post_nms_top_n": 20}),
            ("min size", inputs, {"rpn_min_size": 20, "rpn_post_nms_top_n": 10, "threshold": 0.5}),
            ("thin boxes", {**inputs, "deltas": deltas - F(6) * (np.arange(4 * a).reshape(-1, 1, 1) % 4 > 2)},
             {"rpn_min_size": 0, "rpn_post_nms_top_n": 20}),
            ("odd stride", {**inputs, "info": info * np.array([0.75, 0.75, 1], F)},
             {"feature_stride": 12, "ratios": (0.35, 1.7), "rpn_post_nms_top_n": 20}),
            ("padded", {**inputs, "info": info * np.array([0.6, 0.5, 1], F)}, {"rpn_post_nms_top_n": 10}),
        ):  # fmt: skip
            case(f"{kind} {title}", [*given.values()], **{**how, **more})
        few = [scores[:, :2, :2, :2], deltas[:, :4, :2, :2], np.array([[32, 32, 1], [30, 20, 2]], F)[:n]]
        case(f"{kind} all too small", few, scales=(1,), ratios=(1,), rpn_min_size=40, rpn_post_nms_top_n=6,
             output_score=True)  # fmt: skip
        large = [
            uniform(n, 24, 4, 4, seed=8), noise(n, 48, 4, 4, seed=9, scale=0.2),
            np.array([[64, 64, 1], [50, 60, 1]], F)[:n],
        ]  # fmt: skip
        case(f"{kind} default", large)


def regions():
    x = noise(2, 3, 9, 8, seed=4)
    rois = np.array(
        [[0, 0, 0, 60, 50], [1, 10, 20, 33, 70], [0, 40, 40, 20, 10], [1, -30, -20, 25, 15],
         [0, 100, 100, 140, 150], [1, 4, 4, 4, 4], [0, 12, 20, 44, 52]], F,
    )  # fmt: skip
    for title, size, scale in (
        ("plain", (3, 4), 0.125),
        ("large", (7, 7), 0.125),
        ("one", (1, 1), 1.0),
        ("odd", (2, 5), 0.3),
    ):
        case(f"ROIPooling {title}", [x, rois], pooled_size=size, spatial_scale=scale)
    case("ROIPooling negative", [-np.abs(x), rois], pooled_size=(2, 2), spatial_scale=0.125)
    inside = rois[[0, 1, 3, 5, 6]]
    inside[3, 3:] += F(9)
    for title, data, given, how in (
        ("plain", x, rois, {}),
        ("ratio", x, rois, {"sample_ratio": 2}),
        ("ratio 3", x, rois, {"sample_ratio": 3, "pooled_size": (1, 5)}),
        ("aligned", x, inside, {"aligned": True}),
        ("aligned ratio", x, inside, {"aligned": True, "sample_ratio": 2}),
        ("position sensitive", noise(2, 24, 9, 8), rois, {"position_sensitive": True, "sample_ratio": 2}),
        ("position sensitive aligned", noise(2, 24, 9, 8), inside, {"position_sensitive": True, "aligned": True}),
    ):
        how = {"pooled_size": (3, 4), "spatial_scale": 0.125, **how}
        case(f"_contrib_ROIAlign {title}", [data, given], **how)


def sensitive_regions():
    x = noise(2, 24, 9, 8, seed=4)
    rois = np.array([[0, 0, 0, 60, 50], [1, 10, 20, 33, 70], [0, 12, 20, 44, 52], [1, 4, 4, 4, 4],
                     [0, 40, 40, 20, 10], [1, -30, -20, 25, 15], [0, 100, 100, 140, 150]], F)  # fmt: skip
    for title, how in (
        ("plain", {"output_dim": 6, "pooled_size": 2}),
        ("group", {"output_dim": 6, "pooled_size": 3, "group_size": 2}),
        ("more bins", {"output_dim": 6, "pooled_size": 5, "group_size": 2, "spatial_scale": 0.3}),
    ):
        how = {"spatial_scale": 0.125, **how}
        case(f"_contrib_PSROIPooling {title}", [x, rois], **how)
        how = {**how, "group_size": 2, "sample_per_part": 3}
        case(f"_contrib_DeformablePSROIPooling {title}", [x, rois], no_trans=True, **how)
        for parts, classes in ((how["pooled_size"], 1), (2, 3)):
            shifts = noise(7, 2 * classes, parts, parts, seed=parts)
            case(f"_contrib_DeformablePSROIPooling {title} {parts} {classes}", [x, rois, shifts], no_trans=False,
                 part_size=parts, trans_std=0.1, **how)  # fmt: skip


def deformable():
    for title, shape, k, filters, how in (
        ("plain", (2, 4, 6, 7), (3, 3), 5, {}),
        ("pad", (2, 4, 6, 7), (3, 3), 5, {"pad": (1, 1)}),
        ("stride", (1, 4, 9, 8), (3, 2), 6, {"pad": (2, 1), "stride": (2, 3)}),
        ("dilate", (1, 4, 9, 8), (3, 3), 6, {"pad": (2, 2), "dilate": (2, 2)}),
        ("groups", (2, 4, 6, 7), (3, 3), 6, {"pad": (1, 1), "num_group": 2}),
        ("deformable groups", (2, 4, 6, 7), (3, 3), 6, {"pad": (1, 1), "num_deformable_group": 2}),
        ("both groups", (2, 4, 6, 7), (1, 3), 8, {"pad": (0, 1), "num_group": 2, "num_deformable_group": 4}),
        ("no bias", (2, 4, 6, 7), (3, 3), 5, {"pad": (1, 1), "no_bias": True}),
    ):
        groups = how.get("num_deformable_group", 1)
        plain = mx.nd.Convolution(
            mx.nd.zeros(shape), mx.nd.zeros((filters, shape[1], *k)), no_bias=True, kernel=k, num_filter=filters,
            **{key: how[key] for key in ("pad", "stride", "dilate") if key in how},
        ).shape  # fmt: skip
        taps = groups * k[0] * k[1]
        offset = noise(shape[0], 2 * taps, *plain[2:], seed=7, scale=1.5)
        offset[:, :2] = np.round(offset[:, :2])  # points in cells, at the borders too
        weights = [W(noise(filters, shape[1] // how.get("num_group", 1), *k, seed=8)), W(noise(filters, seed=9))]
        weights = weights[: 1 if how.get("no_bias") else 2]
        inputs = [noise(*shape, seed=10), offset]
        how = {"kernel": k, "num_filter": filters, **how}
        case(f"_contrib_DeformableConvolution {title}", [*inputs, *weights], **how)
        mask = uniform(shape[0], taps, *plain[2:], seed=11)
        case(f"_contrib_ModulatedDeformableConvolution {title}", [*inputs, mask, *weights], **how)


def sampling():
    x = noise(2, 3, 5, 6, seed=1)
    case("BilinearSampler plain", [x, uniform(2, 2, 4, 7, low=-1, high=1)])
    case("BilinearSampler outside", [x, uniform(2, 2, 8, 7, low=-1.7, high=1.7, seed=2)])
    corners = np.array([[-1, 1, -1, 1, 0, -1.4, 1.4, 0], [-1, -1, 1, 1, 0, 0, 1, -1.25]], F).reshape(1, 2, 2, 4)
    case("BilinearSampler corners", [x[:1], corners])
    theta = np.array([[1, 0, 0, 0, 1, 0], [0.8, -0.3, 0.2, 0.4, 1.2, -0.1]], F)
    for title, shape in (("plain", (5, 6)), ("larger", (8, 3)), ("two", (2, 2))):
        case(f"GridGenerator affine {title}", [theta], transform_type="affine", target_shape=shape)
    case("GridGenerator warp", [noise(2, 2, 5, 6, seed=3)], transform_type="warp")
    inner = np.array([[1, 0, 0, 0, 1, 0], [0.6, -0.2, 0.1, 0.1, 0.5, -0.1]], F)
    for title, shape in (("plain", (5, 6)), ("other size", (4, 9))):
        case(f"SpatialTransformer {title}", [x, inner * F(0.9)], target_shape=shape,
             transform_type="affine", sampler_type="bilinear")  # fmt: skip
    for title, size, how in (
        ("default", (6, 7), {}),
        ("displacement", (8, 9), {"max_displacement": 2, "pad_size": 2}),
        ("kernel", (8, 9), {"kernel_size": 3, "max_displacement": 2, "pad_size": 3}),
        ("strides", (9, 11), {"max_displacement": 4, "stride1": 2, "stride2": 2, "pad_size": 4}),
        (
            "odd strides",
            (9, 11),
            {"max_displacement": 3, "stride1": 3, "stride2": 2, "pad_size": 3, "kernel_size": 3},
        ),
        ("differences", (8, 9), {"max_displacement": 2, "pad_size": 2, "is_multiply": False}),
        (
            "differences kernel",
            (8, 9),
            {"kernel_size": 3, "max_displacement": 1, "is_multiply": False, "pad_size": 1},
        ),
    ):
        given = [noise(2, 3, *size, seed=5), noise(2, 3, *size, seed=6)]
        case(f"Correlation {title}", given, **how)


def box_functions():
    n, count = 2, 30
    table = np.concatenate(
        [np.floor(uniform(n, count, 1, seed=1, high=3)), uniform(n, count, 1, seed=2),
         np.stack([boxes(count, seed=3), boxes(count, seed=5)])], axis=2,
    ).astype(F)  # fmt: skip
    tied = table.copy()
    tied[..., 1] = np.round(tied[..., 1] * 4) / 4
    centre = table.copy()
    centre[..., 2:4], centre[..., 4:] = (table[..., 2:4] + table[..., 4:]) / 2, table[..., 4:] - table[..., 2:4]
    inverted = table.copy()
    inverted[:, ::3, [2, 4]] = inverted[:, ::3, [4, 2]]
    moved = np.concatenate([table[..., 2:], table[..., 1:2], table[..., :1], noise(n, count, 2)], axis=2)
    for title, data, how in (
        ("default", table, {}),
        ("no class", table, {"overlap_thresh": 0.2}),
        ("classes", table, {"id_index": 0, "overlap_thresh": 0.2}),
        ("force", table, {"id_index": 0, "overlap_thresh": 0.2, "force_suppress": True}),
        ("valid", table, {"valid_thresh": 0.6, "overlap_thresh": 0.3}),
        ("none valid", table, {"valid_thresh": 2}),
        ("none valid in one", table * np.array([0.1, 1], F).reshape(2, 1, 1), {"valid_thresh": 0.3}),
        ("negative valid", table - F(0.3), {"valid_thresh": -0.2, "overlap_thresh": 0.3}),
        ("background", table, {"id_index": 0, "background_id": 1, "overlap_thresh": 0.3}),
        ("background without class", table, {"background_id": 1, "overlap_thresh": 0.3}),
        ("top k", table, {"topk": 6, "overlap_thresh": 0.2}),
        ("top k classes", table, {"topk": 12, "id_index": 0, "overlap_thresh": 0.2}),
        ("top k many", table, {"topk": 400, "id_index": 0, "overlap_thresh": 0.2}),
        ("top 1", table, {"topk": 1}),
        ("top 0", table, {"topk": 0}),
        ("ties", tied, {"overlap_thresh": 0.2}),
        ("ties classes", tied, {"id_index": 0, "overlap_thresh": 0.2, "topk": 9}),
        ("overlap 0", table, {"overlap_thresh": 0}),
        ("overlap 1", table, {"overlap_thresh": 1}),
        ("center", centre, {"in_format": "center", "out_format": "center", "overlap_thresh": 0.2}),
        ("to corner", centre, {"in_format": "center", "out_format": "corner", "overlap_thresh": 0.2}),
        ("to center", table, {"in_format": "corner", "out_format": "center", "overlap_thresh": 0.2}),
        ("inverted", inverted, {"overlap_thresh": 0.1}),
        ("other columns", moved, {"coord_start": 0, "score_index": 4, "id_index": 5, "overlap_thresh": 0.2}),
        ("rank 2", table[0], {"id_index": 0, "overlap_thresh": 0.2}),
        ("rank 4", table.reshape(2, 3, 10, 6), {"id_index": 0, "overlap_thresh": 0.2, "topk": 7}),
        (
            "fractions of classes",
            table + np.array([-0.6, 0, 0, 0, 0, 0], F),
            {"id_index": 0, "overlap_thresh": 0.1},
        ),
        ("five columns", table[..., 1:], {"coord_start": 1, "score_index": 0, "overlap_thresh": 0.2}),
    ):
        case(f"_contrib_box_nms {title}", [data], **how)
    first, second = boxes(7, seed=1), boxes(5, seed=9)
    second[2] = first[3]
    second[3] = second[3][[2, 1, 0, 3]]
    case("_contrib_box_iou plain", [first, second])
    case("_contrib_box_iou center", [first - F(0.4), second], format="center")
    case("_contrib_box_iou ranks", [boxes(6).reshape(2, 3, 4), second[None]])
    codes, anchors = noise(2, 9, 4, seed=1), boxes(9)[None]
    stds = {"std0": 0.1, "std1": 0.2, "std2": 0.3, "std3": 0.4}
    for title, how in (
        ("default", {}),
        ("corner", {"format": "corner"}),
        ("stds", stds),
        ("clip", {"clip": 0.3, "format": "corner", **stds}),
        ("clip center", {"clip": 0.2}),
    ):
        case(f"_contrib_box_decode {title}", [codes, anchors], **how)


def convolution(x, name, filters, kernel=3, **how):
    return mx.sym.Convolution(
        x, kernel=(kernel, kernel), pad=(kernel // 2,) * 2, num_filter=filters, name=name, **how
    )


def body(x, widths):
    """Return the maps of blocks that each halve the map."""
    maps = []
    for i, width in enumerate(widths):
        x = mx.sym.Activation(convolution(x, f"conv{i}", width), act_type="relu", name=f"relu{i}")
        x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{i}")
        maps.append(x)
    return maps


def weights_of(symbol, **shapes):
    """Return random weights, with variances that keep the scale of the maps."""
    known, _, _ = symbol.infer_shape(**shapes)
    named = dict(zip(symbol.list_arguments(), known))
    return {
        name: noise(*shape, seed=i, scale=0.1 if name.endswith("bias") else (2 / np.prod(shape[1:])) ** 0.5)
        * F(0.3 if "pred" in name else 1)
        + F(3 if name.endswith("scale") else 0)
        for i, (name, shape) in enumerate(named.items()) if name not in shapes
    }  # fmt: skip


def ssd(classes=3, training=False):
    """Return a network in the manner of MXNet's example/ssd, of three maps."""
    maps = body(mx.sym.Variable("data"), (4, 6, 8, 8))[1:]
    scale = mx.sym.Variable("relu1_scale", shape=(1, 6, 1, 1))
    maps[0] = mx.sym.broadcast_mul(scale, mx.sym.L2Normalization(maps[0], mode="channel", name="relu1_norm"))
    sizes, ratios = [(0.2, 0.27), (0.4, 0.48), (0.7, 0.8)], [(1, 2, 0.5), (1, 2, 0.5, 3, 1 / 3), (1, 2, 0.5)]
    parts = [[], [], []]
    for i, x in enumerate(maps):
        count = len(sizes[i]) + len(ratios[i]) - 1
        for j, (kind, each) in enumerate((("loc", 4), ("cls", classes + 1))):
            predictions = convolution(x, f"map{i}_{kind}_pred_conv", count * each)
            parts[j].append(mx.sym.Flatten(mx.sym.transpose(predictions, axes=(0, 2, 3, 1))))
        anchors = mx.sym.contrib.MultiBoxPrior(
            x, sizes=sizes[i], ratios=ratios[i], clip=False, name=f"map{i}_anchors", steps=(-1.0, -1.0)
        )
        parts[2].append(mx.sym.Flatten(anchors))
    locations, scores, anchors = (mx.sym.Concat(*part, num_args=3, dim=1) for part in parts)
    scores = mx.sym.transpose(mx.sym.Reshape(scores, shape=(0, -1, classes + 1)), axes=(0, 2, 1), name="cls_preds")
    anchors = mx.sym.Reshape(anchors, shape=(0, -1, 4), name="multibox_anchors")
    how = {"name": "detection", "nms_threshold": 0.4, "nms_topk": 50, "variances": (0.1, 0.1, 0.2, 0.2)}
    if not training:
        chances = mx.sym.SoftmaxActivation(scores, mode="channel", name="cls_prob")
        return mx.sym.contrib.MultiBoxDetection(chances, locations, anchors, **how)
    label = mx.sym.Variable("label", shape=(1, 2, 5))
    target, mask, kinds = mx.sym.contrib.MultiBoxTarget(anchors, label, scores, name="multibox_target")
    chances = mx.sym.SoftmaxOutput(
        scores,
        label=kinds,
        ignore_label=-1,
        use_ignore=True,
        multi_output=True,
        normalization="valid",
        name="cls_prob",
    )
    loss = mx.sym.MakeLoss(mx.sym.smooth_l1(mask * (locations - target), scalar=1.0), name="loc_loss")
    detections = mx.sym.contrib.MultiBoxDetection(chances, locations, anchors, **how)
    return mx.sym.Group([chances, loss, mx.sym.MakeLoss(kinds, grad_scale=0, name="cls_label"), detections])


def rcnn(several, classes=4):
    """Return a network in the manner of MXNet's example/rcnn; `several`: for a batch."""
    *_, x = body(mx.sym.Variable("data"), (8, 8, 12))
    info, a = mx.sym.Variable("im_info"), 6
    y = mx.sym.Activation(convolution(x, "rpn_conv", 16), act_type="relu")
    scores = mx.sym.Reshape(convolution(y, "rpn_cls_score", 2 * a, 1), shape=(0, 2, -1, 0))
    chances = mx.sym.SoftmaxActivation(scores, mode="channel", name="rpn_cls_prob")
    chances = mx.sym.Reshape(chances, shape=(0, 2 * a, -1, 0), name="rpn_cls_prob_reshape")
    propose = mx.sym.contrib.MultiProposal if several else mx.sym.contrib.Proposal
    rois = propose(
        chances, convolution(y, "rpn_bbox_pred", 4 * a, 1) * 0.1, info, name="rois",
        feature_stride=8, scales=(2, 4), ratios=(0.5, 1, 2), rpn_pre_nms_top_n=100, rpn_post_nms_top_n=12,
        threshold=0.5, rpn_min_size=4,
    )  # fmt: skip
    pooled = mx.sym.ROIPooling(x, rois, pooled_size=(3, 3), spatial_scale=0.125, name="roi_pool")
    y = mx.sym.Activation(
        mx.sym.FullyConnected(mx.sym.Flatten(pooled), num_hidden=20, name="fc6"), act_type="relu"
    )
    chances = mx.sym.softmax(mx.sym.FullyConnected(y, num_hidden=classes, name="cls_score"), name="cls_prob")
    return mx.sym.Group([rois, chances, mx.sym.FullyConnected(y, num_hidden=4 * classes, name="bbox_pred")])


def image(*shape, seed):
    """Return random pixels of few different values, which a file stores in little space."""
    return np.round(noise(*shape, seed=seed) * 4) / F(4)


def networks():
    symbol, picture = ssd(), image(1, 3, 48, 32, seed=3)
    weights = weights_of(symbol, data=picture.shape)
    network("ssd", symbol, {"data": picture}, weights)
    network("ssd of a batch", symbol, {"data": image(2, 3, 48, 32, seed=4)}, weights)
    network("training of ssd", ssd(training=True), {"data": picture}, weights)
    for several, n in ((False, 1), (True, 2)):
        symbol = rcnn(several)
        given = {"data": image(n, 3, 64, 80, seed=5), "im_info": np.array([[64, 80, 1], [60, 70, 1]], F)[:n]}
        weights = weights_of(symbol, **{name: x.shape for name, x in given.items()})
        network("rcnn of a batch" if several else "rcnn", symbol, given, weights)


if __name__ == "__main__":
    for add_cases in (
        priors,
        detections,
        proposals,
        regions,
        sensitive_regions,
        deformable,
        sampling,
        box_functions,
        networks,
    ):
        add_cases()
    save(Path(__file__).with_name("detection.npz"))
