"""Why a row misses its target, as profiling found: row name -> reason, for the report's last table."""

_SPREAD = (
    "the same operators in the same engine: single figures of the fast mode spread by 5 % and more, and what "
    "they are held to is the least of up to eight ways of calling an engine"
)
_OURS = (
    "the engine's operator is the same; 2 us a call are ours (inputs checked, program by shape, a dict of "
    "outputs), 1.5 more with out=; the best way beside it binds its buffers once and gives the same array again"
)

REASONS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("ultraface_RFB-320", "qr_detector", "yolov3_lite_seg", "squeezenet_v1.1", "mobilenet_v1"),
            *("mobilenet_v2", "shufflenet_v2", "mobilenet_ssd", "se_bn_inception", "pelee", "mtcnn_det1"),
            *("shufflenet_v1_g3", "googlenet", "mobilenet"),
        ),
        _SPREAD,
    ),
    "hed": "one half of all samples were of the machine's slow mode, which ncnn suffers from most",
    **dict.fromkeys(
        (
            *("reorg_s2_1x64x26x26", "space_to_depth2_1x64x26x26", "shuffle_g3_1x240x28x28"),
            *("permute_1x24x38x38", "leaky_1x96x55x55", "upsample_nearest2_1x128x26x26"),
        ),
        _OURS,
    ),
    "interp_1x64x65x65_to_129": (
        "one and the same Interpolate; a caller that still holds the last result makes the next one go to other "
        "memory of 4 MB"
    ),
    "detout_sparse_ssd300": (
        "two suppressions (one that picks each class's best, one that drops what overlaps) and a decoding in six "
        "operators, each a pass of its own; ncnn has one loop"
    ),
    "vgg16_553MB": (
        "what is left is ONNX Runtime's: 0.2 s to copy and block 59 MB of convolution weights, half of it page "
        "faults, and the frame"
    ),
    "connected_2.7GB": "measured once each; where the rest of OpenVINO's repacking goes was not looked into",
    "host_call_openvino": (
        "OpenVINO's own call of an empty model takes 8 us with every tensor set beforehand, and a network cut in "
        "two makes one more; a Python operator inside one model costs 27 us"
    ),
    "host_call_onnxruntime": "2.6 us are ONNX Runtime's second call, 1 us copies, 3 us the layer's guarded call",
}
