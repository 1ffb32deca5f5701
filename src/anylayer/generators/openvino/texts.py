"""The fixed parts of a project for OpenVINO. Only numbers and escaped strings from the network's file are
inserted.
"""

from __future__ import annotations

from anylayer.generators._cpp import cmake

TOP = """\
// Layers as operations of an OpenVINO extension, generated from NumPy. This file needs OpenVINO only: the headers
// of the version that loads it. In Python: core.add_extension("liblayers.so")
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/core/parallel.hpp>
#include <openvino/op/op.hpp>

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

"""

PARALLEL = """\
namespace {

// Divides the iterations of a loop among OpenVINO's threads, where there is enough to do.
struct Parallel {
    template <class Body>
    void operator()(int64_t count, int64_t work, const Body& body) const {
        if (count < 2 || work < 20000) {
            body(int64_t(0), count);
            return;
        }
        ov::parallel_nt(0, [&](const int part, const int parts) {
            const int64_t begin = count * part / parts, end = count * (part + 1) / parts;
            if (begin < end) body(begin, end);
        });
    }
};

}  // namespace
"""

LAYERS = """
namespace {

ov::element::Type type_of(int number) { return number == 1 ? ov::element::f32 : ov::element::i32; }

// The operation of kernels[at]. Its attributes are params: those that the code reads, and those that it is for. A
// model with others is refused.
template <std::size_t at>
class Layer : public ov::op::Op {
public:
    static const ov::DiscreteTypeInfo& get_type_info_static() {
        static const ov::DiscreteTypeInfo info = [] {
            ov::DiscreteTypeInfo made{kernels[at].name, "extension", &ov::op::Op::get_type_info_static()};
            made.hash();
            return made;
        }();
        return info;
    }
    const ov::DiscreteTypeInfo& get_type_info() const override { return get_type_info_static(); }

    Layer() = default;
    explicit Layer(const ov::OutputVector& inputs) : Op(inputs) { constructor_validate_and_infer_types(); }

    void validate_and_infer_types() override {
        const Kernel& kernel = kernels[at];
        if (!given_.empty()) numbers_ = checked_numbers(kernel, given_);
        OPENVINO_ASSERT(get_input_size() == kernel.inputs.size(), kernel.name, " has ", get_input_size(),
                        " inputs");
        set_output_size(kernel.outputs.size());
        Shapes inputs;
        for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
            OPENVINO_ASSERT(get_input_element_type(i) == type_of(kernel.inputs[i]), kernel.name, ": input ", i,
                            " is ", get_input_element_type(i));
            if (get_input_partial_shape(i).is_static()) {
                const ov::Shape& shape = get_input_shape(i);
                inputs.emplace_back(shape.begin(), shape.end());
            }
        }
        const bool known = inputs.size() == kernel.inputs.size();
        const Shapes outputs = known ? checked_shapes(kernel, inputs) : Shapes();
        for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
            const auto shape = known ? ov::PartialShape(ov::Shape(outputs[i].begin(), outputs[i].end()))
                                     : ov::PartialShape::dynamic();
            set_output_type(i, type_of(kernel.outputs[i]), shape);
        }
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        const auto made = std::make_shared<Layer>(inputs);
        made->given_ = given_;
        made->numbers_ = numbers_;
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        const auto& params = kernels[at].params;
        if (given_.empty()) {
            for (const Param& param : params) given_.push_back(param.text);
        }
        for (std::size_t i = 0; i < params.size(); ++i) visitor.on_attribute(params[i].name, given_[i]);
        return true;
    }

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        const Kernel& kernel = kernels[at];
        Shapes shapes;
        std::vector<const void*> from;
        for (const ov::Tensor& input : inputs) {
            const ov::Shape shape = input.get_shape();
            shapes.emplace_back(shape.begin(), shape.end());
            from.push_back(input.data());
        }
        const Shapes made = checked_shapes(kernel, shapes);
        std::vector<void*> to;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            outputs[i].set_shape(ov::Shape(made[i].begin(), made[i].end()));
            to.push_back(outputs[i].data());
        }
        checked_run(kernel, shapes, from.data(), to.data(), numbers_.data(), Parallel());
        return true;
    }

private:
    std::vector<std::string> given_;
    std::vector<double> numbers_;
    Keeper keeper_;
};

template <std::size_t... at>
std::vector<ov::Extension::Ptr> extensions(std::index_sequence<at...>) {
    return {std::make_shared<ov::OpExtension<Layer<at>>>()...};
}

}  // namespace

OPENVINO_CREATE_EXTENSIONS(extensions(std::make_index_sequence<std::size(kernels)>()));
"""

CMAKE = """\
# cmake -B build -DOpenVINO_DIR=$(python -c "import openvino.utils as u; print(u.get_cmake_path())")
""" + cmake(
    "layers",
    17,
    """\
find_package(OpenVINO REQUIRED COMPONENTS Runtime)

add_library(layers MODULE layers.cpp)
target_link_libraries(layers PRIVATE openvino::runtime)
set_target_properties(layers PROPERTIES PREFIX "lib" SUFFIX ".so")
# ov::parallel_nt is TBB's, whose library is beside OpenVINO's in the wheel.
file(GLOB TBB "${OpenVINO_DIR}/../libs/libtbb.so.*")
if(TBB)
  list(GET TBB 0 TBB)
  target_link_libraries(layers PRIVATE ${TBB})
endif()
""",
)

TEST = '''"""Compare the model with the network's layers in NumPy: `python test_model.py`, or pytest.

The library is built before: `python test_model.py build`
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import openvino

TOLERANCE = {tolerance!r}
"""The largest difference, relative to the largest absolute value of an output."""
SAMPLES = {samples}
INPUTS = {inputs!a}
OUTPUTS = {outputs!a}
HERE = Path(__file__).parent


def build() -> None:
    """Build the extension with CMake, for the installed OpenVINO."""
    from openvino.utils import get_cmake_path

    folders = ["-S", str(HERE), "-B", str(HERE / "build")]
    subprocess.run(["cmake", *folders, f"-DOpenVINO_DIR={{get_cmake_path()}}"], check=True)
    subprocess.run(["cmake", "--build", str(HERE / "build")], check=True)


def load() -> openvino.CompiledModel:
    """Return the model, compiled in float32 with the extension."""
    core = openvino.Core()
    core.add_extension(str(next((HERE / "build").rglob("liblayers.so"))))
    return core.compile_model(str(HERE / "model.xml"), "CPU", {{"INFERENCE_PRECISION_HINT": "f32"}})


def differences() -> list[tuple[str, float, float]]:
    """Return (output, largest difference, largest value) for each sample and output."""
    data = np.load(HERE / "test_data.npz")
    model = load()
    found = []
    for sample in range(SAMPLES):
        names = {{name for port in model.inputs for name in port.get_names()}}
        inputs = {{n: data[f"sample_{{sample}}_input_{{i}}"] for i, n in enumerate(INPUTS) if n in names}}
        results = model(inputs)
        for i, name in enumerate(OUTPUTS):
            found.append((name, *compared(results[name], data[f"sample_{{sample}}_output_{{i}}"])))
    return found


{checks}

if __name__ == "__main__":
    if sys.argv[1:] == ["build"]:
        build()
    else:
        show()
'''

TEST_KERNELS = '''"""Compare the kernels with the layers in NumPy: `python test_kernels.py`, or pytest.

anylayer runs them, on a device of OpenCL: `pip install anylayer pyopencl`, and a driver. On the command line:
`anylayer run model.xml -c kernels.xml`. In OpenVINO: core.set_property("GPU", {{"CONFIG_FILE": "kernels.xml"}})
"""

from pathlib import Path

import numpy as np

try:
    import anylayer
    import pyopencl

    DEVICES = [device for platform in pyopencl.get_platforms() for device in platform.get_devices()]
    MISSING = "" if DEVICES else "a device of OpenCL"
except Exception as error:
    MISSING = f"anylayer, pyopencl and a device of OpenCL ({{error}})"

TOLERANCE = {tolerance!r}
"""The largest difference, relative to the largest absolute value of an output."""
SAMPLES = {samples}
INPUTS = {inputs!a}
OUTPUTS = {outputs!a}
HERE = Path(__file__).parent


def differences() -> list[tuple[str, float, float]]:
    """Return (output, largest difference, largest value) for each sample and output."""
    data = np.load(HERE / "test_data.npz")
    kernels = anylayer.OpenCL([str(HERE / "kernels.xml")], user_file=False)
    net = anylayer.read(str(HERE / "model.xml"), kernels=kernels)
    model = net.compile()
    found = []
    for sample in range(SAMPLES):
        inputs = {{n: data[f"sample_{{sample}}_input_{{i}}"] for i, n in enumerate(INPUTS) if n in model.inputs}}
        results = model(inputs)
        for i, name in enumerate(OUTPUTS):
            found.append((name, *compared(results[name], data[f"sample_{{sample}}_output_{{i}}"])))
    return found


{checks}

if MISSING:

    def test_outputs_match_numpy() -> None:
        import pytest

        pytest.skip(f"this needs {{MISSING}}")


if __name__ == "__main__":
    if MISSING:
        print(f"the OpenCL kernels were not run: this needs {{MISSING}}")
    else:
        print("the OpenCL kernels:")
        show()
'''
