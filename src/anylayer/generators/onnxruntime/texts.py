"""The fixed parts of a project for ONNX Runtime. Only numbers from the network's file are inserted into them."""

from __future__ import annotations

from anylayer.generators._cpp import cmake

TOP = """\
// Layers as custom operators of ONNX Runtime, generated from NumPy. This file needs no library, and no headers but
// onnxruntime_api.hpp. In Python: options.register_custom_ops_library("liblayers.so")
#include "onnxruntime_api.hpp"

#include <exception>
#include <locale>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

"""

PARALLEL = """\
namespace {

// Divides the iterations of a loop among the threads of the session, where there is enough to do.
struct Parallel {
    const void* context;

    template <class Body>
    void operator()(int64_t count, int64_t work, const Body& body) const {
        if (count < 2 || work < 20000) {
            body(int64_t(0), count);
            return;
        }
        struct Loop {
            const Body& body;
            int64_t count, parts;
        } loop{body, count, std::min<int64_t>(count, std::min<int64_t>(work / 10000 + 1, 64))};
        void (*part)(void*, std::size_t) = [](void* given, std::size_t i) {
            const Loop& self = *static_cast<Loop*>(given);
            const int64_t at = int64_t(i);
            self.body(self.count * at / self.parts, self.count * (at + 1) / self.parts);
        };
        const std::size_t parts = std::size_t(loop.parts);
        if (onnxruntime_api::call(onnxruntime_api::kParallelFor, context, part, parts, std::size_t(0),
                                  static_cast<void*>(&loop))) {
            body(int64_t(0), count);
        }
    }
};

}  // namespace
"""

LAYERS = """
namespace {

using namespace onnxruntime_api;

Status shape_of(const void* value, std::vector<int64_t>& shape) {
    void* info = nullptr;
    if (Status bad = call(kTypeAndShape, value, &info)) return bad;
    std::size_t rank = 0;
    Status bad = call(kRank, static_cast<const void*>(info), &rank);
    if (!bad) {
        shape.resize(rank);
        bad = call(kSizes, static_cast<const void*>(info), shape.data(), rank);
    }
    reinterpret_cast<void (*)(void*)>(table[kReleaseTypeAndShape])(info);
    return bad;
}

// A node of the model: its kernel, and the numbers of the params that the kernel reads.
struct Layer {
    const Kernel& kernel;
    std::vector<double> numbers;
    Keeper keeper;
};

// Return the text of an attribute.
std::string text_of(const void* info, const Kernel& kernel, const char* name) {
    std::size_t size = 0;
    char* none = nullptr;
    if (Status bad = call(kText, info, name, none, &size)) {
        release(bad);
        throw std::runtime_error(std::string("operator ") + kernel.name + " has no parameter " + name +
                                 ", a string; there is code for " + kernel.about);
    }
    std::string text(size, ' ');
    if (Status bad = call(kText, info, name, &text[0], &size)) {
        release(bad);
        throw std::runtime_error(std::string("parameter ") + name + " cannot be read");
    }
    return text.substr(0, size - 1);
}

Status computed(const Layer& layer, void* context) {
    const Kernel& kernel = layer.kernel;
    Shapes shapes(kernel.inputs.size());
    std::vector<const void*> from(kernel.inputs.size());
    std::vector<void*> to(kernel.outputs.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
        void* value = nullptr;
        void* data = nullptr;
        if (Status bad = call(kInput, static_cast<const void*>(context), i, &value)) return bad;
        if (Status bad = shape_of(value, shapes[i])) return bad;
        if (Status bad = call(kMutableData, value, &data)) return bad;
        from[i] = data;
    }
    const Shapes outputs = checked_shapes(kernel, shapes);
    for (std::size_t i = 0; i < to.size(); ++i) {
        void* value = nullptr;
        if (Status bad = call(kOutput, context, i, outputs[i].data(), outputs[i].size(), &value)) return bad;
        if (Status bad = call(kMutableData, value, &to[i])) return bad;
    }
    checked_run(kernel, shapes, from.data(), to.data(), layer.numbers.data(), Parallel{context});
    return nullptr;
}

struct LayerOperator : Operator {
    const Kernel* kernel;

    static const Kernel& of(const Operator* self) { return *static_cast<const LayerOperator*>(self)->kernel; }

    explicit LayerOperator(const Kernel& given) : kernel(&given) {
        name = [](const Operator* self) { return of(self).name; };
        inputs = [](const Operator* self) { return of(self).inputs.size(); };
        outputs = [](const Operator* self) { return of(self).outputs.size(); };
        input_type = [](const Operator* self, std::size_t i) { return of(self).inputs[i]; };
        output_type = [](const Operator* self, std::size_t i) { return of(self).outputs[i]; };
        create2 = [](const Operator* self, Table, const void* info, void** made) -> Status {
            try {
                std::unique_ptr<Layer> layer(new Layer{of(self), {}, {}});
                std::vector<std::string> texts;
                for (const Param& param : layer->kernel.params)
                    texts.push_back(text_of(info, layer->kernel, param.name));
                layer->numbers = checked_numbers(layer->kernel, texts);
                *made = layer.release();
                return nullptr;
            } catch (const std::exception& thrown) {
                return error(thrown.what());
            }
        };
        destroy = [](void* made) { delete static_cast<Layer*>(made); };
        compute2 = [](void* made, void* context) -> Status {
            try {
                return computed(*static_cast<const Layer*>(made), context);
            } catch (const std::exception& thrown) {
                return error(thrown.what());
            }
        };
    }
};

}  // namespace

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

extern "C" EXPORT void* RegisterCustomOps(void* options, const void* base) {
    static const std::vector<LayerOperator> operators(std::begin(kernels), std::end(kernels));
    std::vector<const Operator*> pointers;
    for (const LayerOperator& one : operators) pointers.push_back(&one);
    return add(options, static_cast<const Base*>(base), "layers", pointers.data(), pointers.size());
}
"""

CMAKE = cmake(
    "layers",
    17,
    """
add_library(layers MODULE layers.cpp)
set_target_properties(layers PROPERTIES PREFIX "lib" SUFFIX ".so" CXX_VISIBILITY_PRESET hidden)
""",
)

TEST = '''"""Compare the model with the network's layers in NumPy: `python test_model.py`, or pytest.

The library is built before: cmake -B build && cmake --build build
"""

from pathlib import Path

import numpy as np
import onnxruntime

TOLERANCE = {tolerance!r}
"""The largest difference, relative to the largest absolute value of an output."""
SAMPLES = {samples}
HERE = Path(__file__).parent


def load() -> onnxruntime.InferenceSession:
    """Return a session of the model that has the operators of the library."""
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(next((HERE / "build").rglob("liblayers.so"))))
    return onnxruntime.InferenceSession(str(HERE / "model.onnx"), options, providers=["CPUExecutionProvider"])


def differences() -> list[tuple[str, float, float]]:
    """Return (output, largest difference, largest value) for each sample and output."""
    data = np.load(HERE / "test_data.npz")
    session = load()
    found = []
    for sample in range(SAMPLES):
        names = [value.name for value in session.get_inputs()]
        inputs = {{name: data[f"sample_{{sample}}_input_{{i}}"] for i, name in enumerate(names)}}
        outputs = [value.name for value in session.get_outputs()]
        for i, result in enumerate(session.run(outputs, inputs)):
            found.append((outputs[i], *compared(result, data[f"sample_{{sample}}_output_{{i}}"])))
    return found


{checks}

if __name__ == "__main__":
    show()
'''
