"""Make mediapipe.npz: small models with custom operators of MediaPipe, and what MediaPipe computes for an image.

    python make_mediapipe.py    (needs mediapipe 0.10.21, and flatbuffers and ai-edge-litert for the schema)

MediaPipe's graph takes an image of bytes and returns the first output, so each model scales the image first. The
file has the form of operators.npz.
"""

from __future__ import annotations

import struct
import tempfile

import flatbuffers
import mediapipe
import mediapipe.python.packet_creator as create
import mediapipe.python.packet_getter as get
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers
from make_operators import save
from mediapipe.python._framework_bindings import calculator_graph

F = np.float32
SAME, VALID = 1, 2  # TfLitePadding
GRAPH = """
input_stream: "image"
output_stream: "floats"
node {{ calculator: "TfLiteCustomOpResolverCalculator" output_side_packet: "OP_RESOLVER:r" }}
node {{ calculator: "ImageToTensorCalculator" input_stream: "IMAGE:image" output_stream: "TENSORS:t"
  options: {{ [mediapipe.ImageToTensorCalculatorOptions.ext] {{ output_tensor_width: {width}
    output_tensor_height: {height} output_tensor_float_range {{ min: 0.0 max: 255.0 }} }} }} }}
node {{ calculator: "InferenceCalculator" input_side_packet: "OP_RESOLVER:r" input_stream: "TENSORS:t"
  output_stream: "TENSORS:o"
  options: {{ [mediapipe.InferenceCalculatorOptions.ext] {{ model_path: "{path}"
    delegate {{ tflite {{}} }} }} }} }}
node {{ calculator: "TensorsToFloatsCalculator" input_stream: "TENSORS:o" output_stream: "FLOATS:floats" }}
"""


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


class Model:
    """A model of an image of bytes; `values` are the tensors, by number."""

    def __init__(self, height, width):
        self.whole, self.graph = schema.ModelT(), schema.SubGraphT()
        self.whole.version, self.whole.buffers, self.whole.operatorCodes = 3, [schema.BufferT()], []
        self.graph.tensors, self.graph.operators, self.height, self.width = [], [], height, width
        self.graph.inputs = [self.tensor((1, height, width, 3), "in0")]
        self.last = self.add("MUL", [self.constant(F(1 / 64))], (1, height, width, 3), "MulOptions")
        self.last = self.add("SUB", [self.constant(F(2))], (1, height, width, 3), "SubOptions")

    def tensor(self, shape, name=None, kind=0):
        one = schema.TensorT()
        one.name, one.shape, one.type, one.buffer = name or f"t{len(self.graph.tensors)}", list(shape), kind, 0
        self.graph.tensors.append(one)
        return len(self.graph.tensors) - 1

    def constant(self, array):
        array, buffer = np.asarray(array), schema.BufferT()
        number = self.tensor(array.shape, kind={"f": 0, "i": 2}[array.dtype.kind])
        buffer.data = np.frombuffer(array.tobytes(), np.uint8)
        self.graph.tensors[number].buffer = len(self.whole.buffers)
        self.whole.buffers.append(buffer)
        return number

    def add(self, kind, others, *shapes, version=1, custom=None):
        """Add an operator of the last tensor and others, and return its outputs. custom: its options as bytes."""
        code, step = schema.OperatorCodeT(), schema.OperatorT()
        code.version = version
        if isinstance(custom, bytes):
            code.builtinCode, code.customCode = schema.BuiltinOperator.CUSTOM, kind
            step.customOptions = np.frombuffer(custom, np.uint8)
        else:
            code.builtinCode = getattr(schema.BuiltinOperator, kind)
        if not isinstance(shapes[0], tuple) or isinstance(shapes[-1], str):
            *shapes, table = shapes
            step.builtinOptionsType = getattr(schema.BuiltinOptions, table)
            step.builtinOptions = getattr(schema, f"{table}T")()
        code.deprecatedBuiltinCode = code.builtinCode
        step.opcodeIndex, step.inputs = len(self.whole.operatorCodes), [getattr(self, "last", 0), *others]
        step.outputs = [self.tensor(shape) for shape in shapes]
        self.whole.operatorCodes.append(code)
        self.graph.operators.append(step)
        return step.outputs[0] if len(shapes) == 1 else step.outputs

    def reshape(self, *shape):
        self.last = self.add("RESHAPE", [self.constant(np.array(shape, np.int32))], shape)

    def case(self, name, output=None):
        """Return the case of this model: the first output is computed by MediaPipe."""
        number = self.last if output is None else output
        self.graph.outputs, self.whole.subgraphs = [number], [self.graph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.whole.Pack(builder), b"TFL3")
        stored = bytes(builder.Output())
        image = np.random.default_rng(1).integers(0, 256, (self.height, self.width, 3), np.uint8)
        result = computed(stored, image).reshape(self.graph.tensors[number].shape)
        return {
            "name": name, "model": stored, "inputs": {"in0": image[None].astype(F)},
            "outputs": {self.graph.tensors[number].name: result},
        }  # fmt: skip


def computed(stored, image):
    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(stored)
        file.flush()
        text = GRAPH.format(height=image.shape[0], width=image.shape[1], path=file.name)
        graph, results = calculator_graph.CalculatorGraph(graph_config=text), []
        graph.observe_output_stream("floats", lambda _, packet: results.append(get.get_float_list(packet)))
        graph.start_run()
        packet = create.create_image_frame(image_format=mediapipe.ImageFormat.SRGB, data=image)
        graph.add_packet_to_input_stream("image", packet.at(1))
        graph.close_all_packet_sources()
        graph.wait_until_done()
    return np.array(results[0], F)


def cases():
    for title, padding, w, h, kernel, shape in (
        ("same", SAME, 2, 2, (3, 3), (9, 12)), ("valid", VALID, 2, 1, (3, 2), (7, 12)),
        ("same small kernel", SAME, 3, 3, (2, 2), (14, 17)), ("same odd", SAME, 2, 3, (4, 5), (14, 12)),
    ):  # fmt: skip
        model = Model(5, 6)
        others = [model.constant(noise(4, *kernel, 3)), model.constant(noise(4, seed=1))]
        options = struct.pack("<3i", padding, w, h)
        model.last = model.add("Convolution2DTransposeBias", others, (1, *shape, 4), custom=options)
        yield model.case(f"Convolution2DTransposeBias {title}")
    for title, padding, stride, size, activation, shape in (
        ("plain", VALID, (2, 2), (2, 2), 0, (4, 5)), ("relu", VALID, (2, 2), (2, 2), 1, (4, 5)),
        ("same", SAME, (2, 3), (3, 2), 0, (3, 5)), ("overlap", VALID, (1, 2), (3, 2), 3, (4, 8)),
    ):  # fmt: skip
        options = struct.pack("<6i", padding, *stride, *size, activation)
        for index in (0, 1):
            model = Model(8, 10)
            outputs = model.add("MaxPoolingWithArgmax2D", [], *((1, *shape, 3),) * 2, custom=options)
            yield model.case(f"MaxPoolingWithArgmax2D {title} {index}", outputs[index])
        if stride == size:
            model = Model(8, 10)
            outputs = model.add("MaxPoolingWithArgmax2D", [], *((1, *shape, 3),) * 2, custom=options)
            model.last = outputs[0]
            model.last = model.add("MaxUnpooling2D", [outputs[1]], (1, 8, 10, 3), custom=options)
            yield model.case(f"MaxUnpooling2D {title}")
    matrix = np.eye(4, dtype=F)[None]
    matrix[0, :2] = [[1.2, -0.3, 5, 0.7], [0.4, 0.9, 6, -1.1]]
    for size in (2, 3):
        model = Model(4, 6)
        model.reshape(1, 72 // size, size)
        model.last = model.add(
            "TransformLandmarks", [model.constant(matrix)], (1, 72 // size, size), version=2, custom=b""
        )
        yield model.case(f"TransformLandmarks {size}")
    for title, size, scale in (("inside", (5, 4), 1.0), ("beyond", (9, 12), 1.4), ("wide", (6, 3), 0.5)):
        model, used = Model(8, 10), matrix.copy()
        used[0, :2, :2] *= scale
        options = flexbuffers.Dumps({"output_height": size[0], "output_width": size[1]})
        model.last = model.add("TransformTensorBilinear", [model.constant(used)], (1, *size, 3), version=2,
            custom=bytes(options))  # fmt: skip
        yield model.case(f"TransformTensorBilinear {title}")
    for title, radians in (("plain", 0.0), ("turned", 1.2)):
        options = flexbuffers.Builder()
        with options.Map():
            for key, value in (("left_rotation_idx", 3), ("right_rotation_idx", 9), ("output_height", 6),
                               ("output_width", 5)):  # fmt: skip
                options.Int(key, value)
            for key, value in (("target_rotation_radians", radians), ("scale_x", 1.5), ("scale_y", 1.25)):
                options.Float(key, value)
            options.TypedVectorFromElements("subset_idxs", [1, 4, 9, 17, 20])
        model = Model(4, 6)
        model.reshape(1, 24, 3)
        options = bytes(options.Finish())
        model.last = model.add("Landmarks2TransformMatrix", [], (1, 4, 4), version=2, custom=options)
        yield model.case(f"Landmarks2TransformMatrix {title}")


if __name__ == "__main__":
    save("mediapipe.npz", [*cases()])
