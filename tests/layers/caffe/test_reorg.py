"""Reorg."""

from tests.layers.harness import case, noise, ramp, reads, rejects

X = ramp(1, 4, 2, 2)
DARKNET = [0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15]
ASCEND = [0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15]
REVERSE = [[0, 4, 1, 5], [8, 12, 9, 13], [2, 6, 3, 7], [10, 14, 11, 15]]


def column(values):
    return [[[[v]] for v in values]]


def by_index(x, s):
    """Compute Darknet's loop over the dimensions of the input."""
    n, c, h, w = x.shape
    out = x.copy().reshape(n, -1)
    wide = x.reshape(n, c // s**2, h * s, w * s)
    for k in range(c):
        o, c2 = divmod(k, c // s**2)
        for j in range(h):
            for i in range(w):
                out[:, (k * h + j) * w + i] = wide[:, c2, j * s + o // s, i * s + o % s]
    return out.reshape(n, c * s**2, h // s, w // s)


test_darknet = case("Reorg", {"stride": 2}, dialect="darknet", inputs=[X], outputs=[column(DARKNET)])
test_darknet_large = case(
    "Reorg", {"stride": 2}, dialect="yolov2", inputs=[noise(2, 8, 4, 6)], outputs=[by_index(noise(2, 8, 4, 6), 2)]
)
test_darknet_3 = case(
    "Reorg",
    {"stride": 3},
    dialect="mobilenet-yolo",
    inputs=[noise(1, 9, 6, 3)],
    outputs=[by_index(noise(1, 9, 6, 3), 3)],
)
test_darknet_reverse = case(
    "Reorg", {"stride": 2, "reverse": True}, dialect="darknet", inputs=[X], outputs=[[[REVERSE]]]
)
test_opencv = case("Reorg", dialect="opencv", inputs=[X], outputs=[column(DARKNET)])
test_opencv_reads_no_fields = rejects(
    "Reorg",
    {"stride": 3},
    dialect="opencv",
    inputs=[noise(1, 9, 3, 3)],
    text="OpenCV reads no fields of reorg_param: its stride is 2, without reverse",
)
test_ascend = case("Reorg", {"stride": 2}, dialect="ascend", inputs=[X], outputs=[column(ASCEND)])
test_ascend_default_stride = case("Reorg", dialect="ascend", inputs=[X], outputs=[column(ASCEND)])
test_ascend_channels_need_not_divide = case(
    "Reorg", {"stride": 2}, dialect="ascend", inputs=[ramp(1, 1, 2, 2)], outputs=[column([0, 1, 2, 3])]
)
test_ascend_reverse = case("Reorg", {"reverse": True}, dialect="ascend", inputs=[X], outputs=[[[REVERSE]]])

test_ambiguous = rejects(
    "Reorg",
    {"stride": 2},
    inputs=[X],
    text="'Reorg' can mean 2 things, give dialect=...: darknet or mobilenet-yolo or yolov2 or atlas or opencv",
)
test_synopsys_is_not_known = rejects(
    "Reorg", {"stride": 2}, dialect="synopsys", inputs=[X], text="'Reorg' can mean 2 things"
)
test_stride_is_required = rejects("Reorg", dialect="darknet", inputs=[X], text="parameter 'stride' is missing")
test_stride_is_positive = rejects(
    "Reorg", {"stride": 0}, dialect="darknet", inputs=[X], text="stride must be at least 1, got 0"
)
test_rejects_stride_that_does_not_divide_map = rejects(
    "Reorg",
    {"stride": 2},
    dialect="ascend",
    inputs=[ramp(1, 4, 2, 3)],
    text="stride=2 does not divide 2 x 3 pixels",
)
test_rejects_darknet_stride_that_does_not_divide_map = rejects(
    "Reorg",
    {"stride": 2},
    dialect="darknet",
    inputs=[ramp(1, 4, 5, 2)],
    text="stride=2 does not divide 5 x 2 pixels",
)
test_rejects_channels_that_stride_squared_does_not_divide = rejects(
    "Reorg",
    {"stride": 2},
    dialect="darknet",
    inputs=[ramp(1, 6, 2, 2)],
    text="stride=2 squared does not divide 6 channels",
)
test_rejects_reversed_channels_that_stride_squared_does_not_divide = rejects(
    "Reorg",
    {"stride": 2, "reverse": True},
    dialect="ascend",
    inputs=[ramp(1, 6, 2, 2)],
    text="stride=2 squared does not divide 6 channels",
)
test_rejects_input_without_4_axes = rejects(
    "Reorg", {"stride": 2}, dialect="darknet", inputs=[ramp(4, 2, 2)], text="must be of shape (N, C, H, W)"
)
test_ascend_text = reads(
    """layer { name: "r" type: "Reorg" bottom: "in0" top: "r" reorg_param { reverse: true } }""",
    dialect="ascend",
    stride=2,
    reverse=True,
)

S = ramp(1, 16, 2, 2)
test_sophgo_is_ascends_order = case(
    "Reorg",
    {"stride": 2},
    dialect="sophgo",
    inputs=[ramp(1, 1, 2, 2)],
    outputs=[ramp(1, 4, 1, 1)],
)
test_sophgo_reverse_reads_a_wider_map = case(
    "Reorg",
    {"stride": 2, "reverse": True},
    dialect="sophgo",
    inputs=[S],
    outputs=[S.reshape(2, 2, 4, 4).transpose(2, 0, 3, 1).reshape(1, 4, 4, 4)],
)
test_sophgo_reverse_needs_more_channels = rejects(
    "Reorg",
    {"stride": 2, "reverse": True},
    dialect="sophgo",
    inputs=[S[:, :8]],
    text="reverse needs stride=2 to the power of 4 to divide the 8 channels",
)
