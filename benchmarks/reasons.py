"""Row name -> why the row misses its target, found by profiling."""

_LAYER_ONNXRUNTIME = (
    "for larger arrays the engine converts between its blocks and plain order before and after the layer"
)
_LAYER_OPENVINO = (
    "the call of the operation in Python takes 10 us; for larger arrays the engine converts between its blocks "
    "and plain order before and after the layer"
)
_BUSY = (
    "other programs kept both cores busy: the second thread of the loop waited for a core, and the first one for "
    "the second; the row with one thread meets its target"
)
_OUR_CALL = (
    "the engine's operator is the same; 2 us per call are anylayer's (checking the inputs, finding the program of"
    " the shape, a dict of outputs), and 1.5 us more with out=; the fastest direct call binds its buffers once "
    "and returns the same array again"
)

REASONS: dict[str, str] = {
    "hed": "half of all samples were measured in the machine's slow mode, which slows ncnn down most",
    **dict.fromkeys(
        (
            *("reorg_s2_1x64x26x26", "space_to_depth2_1x64x26x26", "shuffle_g3_1x240x28x28"),
            *("permute_1x24x38x38", "leaky_1x96x55x55", "upsample_nearest2_1x128x26x26"),
        ),
        _OUR_CALL,
    ),
    "interp_1x64x65x65_to_129x129_threads_2": _BUSY,
    **{f"middle_onnxruntime_{shape}": _LAYER_ONNXRUNTIME for shape in ("1x4x8x8", "1x16x32x32", "1x32x56x56")},
    **{f"middle_openvino_{shape}": _LAYER_OPENVINO for shape in ("1x4x8x8", "1x16x32x32", "1x32x56x56")},
    "interp_1x64x65x65_to_129": (
        "the same Interpolate; if the caller still holds the last result, the next one needs another 4 MB of "
        "memory"
    ),
    "detout_sparse_ssd300": (
        "two NMS operators (one selects the best boxes of each class, one removes overlapping boxes) and decoding"
        " in six operators, each with a pass over the data of its own; ncnn has one loop"
    ),
    "vgg16_553MB": (
        "the rest is ONNX Runtime's: 0.2 s to copy and block 59 MB of convolution weights, half of it page "
        "faults, and the frame"
    ),
    "connected_2.7GB": "measured once each; the rest of OpenVINO's repacking was not investigated",
    "host_call_openvino": (
        "OpenVINO's own call of an empty model takes 8 us with all tensors set beforehand, and a network in two "
        "parts needs one more call; a Python operator inside one model costs 27 us"
    ),
    "host_call_onnxruntime": (
        "2.6 us are ONNX Runtime's second call, 1 us copies, 3 us checks around the call of the layer"
    ),
}


def reason(row: str) -> str:
    """Return why a row misses its target."""
    return REASONS.get(row, "not investigated")
