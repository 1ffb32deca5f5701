"""RegionYolo."""

from tests.layers.caffe.test_region import SOFT, in_place
from tests.layers.caffe.test_yolo import X
from tests.layers.harness import case, reads, rejects

TWO = {"num": 2, "classes": 3}
test_flat = case("RegionYolo", TWO, inputs=[X], outputs=[SOFT.reshape(2, -1)])
test_flat_to_an_axis = case(
    "RegionYolo",
    {"region_yolo_param": TWO, "flatten_param": {"axis": 1, "end_axis": 2}},
    inputs=[X],
    outputs=[SOFT.reshape(2, 48, 4)],
)
test_map = case(
    "RegionYolo",
    {"do_softmax": False, "classes": 3, "num": 9, "mask": [3, 4], "anchors": [1, 2, 3, 4]},
    inputs=[X],
    outputs=[in_place(X, 2, 3)],
)
test_mask_is_required = rejects(
    "RegionYolo",
    {**TWO, "do_softmax": False},
    inputs=[X],
    text="parameter 'mask' is missing: without do_softmax it gives",
)
test_rejects_coords_of_0 = rejects(
    "RegionYolo", {**TWO, "coords": 0}, inputs=[X], text="coords must be at least 2, got 0"
)
test_rejects_flatten_axis_beyond_rank = rejects(
    "RegionYolo",
    {"region_yolo_param": TWO, "flatten_param": {"axis": 4}},
    inputs=[X],
    text="flatten_param's axis must lie in -4..3 for an input of shape (2, 16, 3, 4), got 4",
)
test_rejects_flatten_axis_after_end_axis = rejects(
    "RegionYolo",
    {"region_yolo_param": TWO, "flatten_param": {"axis": 3, "end_axis": 1}},
    inputs=[X],
    text="flatten_param's axis 3 must not lie after its end_axis 1",
)
test_from_text = reads(
    """layer { name: "r" type: "RegionYolo" bottom: "in0" top: "r" flatten_param { axis: 1 }
         region_yolo_param { coords: 4 classes: 3 num: 2 do_softmax: true anchors: 1.5 anchors: 2 } }""",
    num=2,
    do_softmax=True,
    anchors=(1.5, 2.0),
)
