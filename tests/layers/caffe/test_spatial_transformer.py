"""SpatialTransformer."""

import numpy as np

from tests.layers.harness import case, noise, ramp, reads, rejects

U = ramp(1, 1, 3, 4)
NAMES = ("theta_1_1", "theta_1_2", "theta_1_3", "theta_2_1", "theta_2_2", "theta_2_3")


def sampled(x, theta, rows, columns):
    """Compute the CUDA code tap by tap."""
    n, c, h, w = x.shape
    out = np.zeros((n, c, rows, columns), np.float32)
    for k in range(n):
        t = np.asarray(theta[k], np.float64).reshape(2, 3)
        for i in range(rows):
            for j in range(columns):
                p, q = t @ [2 * i / rows - 1, 2 * j / columns - 1, 1]
                y, z = (p + 1) / 2 * h, (q + 1) / 2 * w
                for m in (int(np.floor(y)), int(np.floor(y)) + 1):
                    for o in (int(np.floor(z)), int(np.floor(z)) + 1):
                        if 0 <= m < h and 0 <= o < w:
                            out[k, :, i, j] += (1 - abs(y - m)) * (1 - abs(z - o)) * x[k, :, m, o]
    return out


def mapped(theta, want, **fields):
    return case("SpatialTransformer", {"st_param": fields}, inputs=[U, [theta]], outputs=[[[want]]])


IDENTITY = [1, 0, 0, 0, 1, 0]
test_identity = mapped(IDENTITY, U[0, 0])
test_smaller = mapped(IDENTITY, [[0, 2], [6, 8]], output_H=2, output_W=2)
test_transpose = mapped([0, 1, 0, 1, 0, 0], U[0, 0].T, output_H=4, output_W=3)
test_rows_move = mapped([1, 0, 2 / 3, 0, 1, 0], [[4, 5, 6, 7], [8, 9, 10, 11], [0, 0, 0, 0]])
test_zoom = mapped([0.5, 0, 0, 0, 0.5, 0], [[4, 4.5, 5, 5.5], [6, 6.5, 7, 7.5], [8, 8.5, 9, 9.5]])
test_minus_one_is_the_input_size = mapped(IDENTITY, U[0, 0], output_H=-1, output_W=-1, to_compute_dU=False)

X, T = noise(2, 3, 6, 8), noise(2, 6, seed=1, scale=0.7)
test_each_image_its_map = case(
    "SpatialTransformer",
    {"st_param": {"output_H": 5, "output_W": 7}},
    inputs=[X, T],
    outputs=[sampled(X, T, 5, 7)],
)
test_theta_of_three_axes = case(
    "SpatialTransformer", {"st_param": {}}, inputs=[X, T.reshape(2, 2, 3)], outputs=[sampled(X, T, 6, 8)]
)
FIXED = {"theta_1_1": -0.129, "theta_1_2": 0.626, "theta_2_1": 0.344, "theta_2_2": 0.157}
SHIFTS = noise(2, 2, seed=3, scale=0.3)
SEED = [[-0.129, 0.626, t, 0.344, 0.157, u] for t, u in SHIFTS]
test_some_fixed = case(
    "SpatialTransformer", {"st_param": FIXED}, inputs=[X, SHIFTS], outputs=[sampled(X, SEED, 6, 8)]
)
ALL = dict(zip(NAMES, [0.8, 0.1, 0.2, -0.1, 0.9, 0.05]))
test_all_fixed = case(
    "SpatialTransformer", {"st_param": ALL}, inputs=[X], outputs=[sampled(X, [list(ALL.values())] * 2, 6, 8)]
)
test_all_fixed_with_a_second_input = case(
    "SpatialTransformer", {"st_param": ALL}, inputs=[X, T], outputs=[sampled(X, [list(ALL.values())] * 2, 6, 8)]
)
test_ascend_message = case(
    "SpatialTransformer",
    {"spatial_transform_param": {"output_h": 5, "output_w": 7}},
    dialect="ascend",
    inputs=[X, T],
    outputs=[sampled(X, T, 5, 7)],
)
test_ascend_message_with_the_map = case(
    "SpatialTransformer",
    {"spatial_transform_param": {"affine_transform": list(ALL.values())}},
    inputs=[X],
    outputs=[sampled(X, [list(ALL.values())] * 2, 6, 8)],
)


def refused(text, fields, *inputs):
    return rejects("SpatialTransformer", {"st_param": fields}, inputs=inputs, text=text)


test_theta_is_required = refused(
    "input 1 is missing: it contains the 2 values of theta that the file does not give", FIXED, X
)
test_rejects_more_parameters_than_are_not_fixed = refused(
    "input 1 must have 2 values for each of 2 images (6 less those given), got shape (2, 6)", FIXED, X, T
)
test_rejects_parameters_for_other_number_of_images = refused(
    "input 1 must have 6 values for each of 1 images", {}, X[:1], T
)
test_rejects_empty_output = refused(
    "the output must have 1..32768 rows and columns, got 0 x 8", {"output_H": 0}, X, T
)
test_rejects_projective_transformation = refused(
    "transform_type must be 'affine', got 'projective'", {"transform_type": "projective"}, X, T
)
test_rejects_nearest_neighbour_sampling = refused(
    "sampler_type must be 'bilinear', got 'nearest'", {"sampler_type": "nearest"}, X, T
)
test_rejects_input_without_4_axes = refused("input 0 must be of shape (N, C, H, W)", {}, X[0], T)
test_rejects_unknown_field = refused("st_param has no field 'de_transform'", {"de_transform": "x"}, X, T)
test_rejects_both_parameter_messages = rejects(
    "SpatialTransformer",
    {"st_param": {"output_H": 4}, "spatial_transform_param": {"output_h": 4}},
    inputs=[X, T],
    text="st_param and spatial_transform_param mean the same: give only one of them",
)
test_rejects_field_spelt_as_in_the_other_message = rejects(
    "SpatialTransformer",
    {"spatial_transform_param": {"output_H": 3}},
    inputs=[X, T],
    text="spatial_transform_param has no field 'output_H'; did you mean 'output_h'?",
)
test_from_text = reads(
    """layer { name: "st" type: "SpatialTransformer" bottom: "in0" bottom: "in1" top: "st" st_param {
         to_compute_dU: false theta_1_1: -0.129 theta_1_2: 0.626 theta_2_1: 0.344 theta_2_2: 0.157 } }""",
    inputs=2,
    to_compute_dU=False,
    theta_1_1=-0.129,
    theta_2_2=0.157,
    output_H=-1,
)
