"""ReLU."""

from tests.layers.harness import case, reads

test_plain = case("ReLU", inputs=[[-2, 0, 3]], outputs=[[0, 0, 3]])
test_leaky = case("ReLU", {"negative_slope": 0.1}, inputs=[[-2, 0, 3]], outputs=[[-0.2, 0, 3]])
test_in_place = case("ReLU", inputs=[[-2, 0, 3]], in_place=True, outputs=[[0, 0, 3]])
test_read = reads(
    'layer { name: "r" type: "ReLU" bottom: "in0" top: "in0" relu_param { negative_slope: 0.5 engine: CAFFE } }',
    negative_slope=0.5,
    engine="CAFFE",
)
test_a_message_of_another_layer_is_noted = case(
    "ReLU",
    {"relu_param": {}, "prelu_param": {"channel_shared": True}},
    inputs=[[1]],
    outputs=[[1]],
    notes=["prelu_param has no effect: ReLU does not read it"],
)
