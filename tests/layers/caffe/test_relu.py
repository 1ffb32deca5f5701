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
