// Double as an operation of an OpenVINO extension, written by hand: the kernel of examples/native/double.cpp.
#include <openvino/core/extension.hpp>
#include <openvino/frontend/onnx/extension/op.hpp>
#include <openvino/op/op.hpp>

class Double : public ov::op::Op {
 public:
  OPENVINO_OP("Double", "hand");

  void validate_and_infer_types() override {
    if (get_input_size()) set_output_type(0, get_input_element_type(0), get_input_partial_shape(0));
  }

  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
    auto made = std::make_shared<Double>();
    made->set_arguments(inputs);
    made->validate_and_infer_types();
    return made;
  }

  bool visit_attributes(ov::AttributeVisitor&) override { return true; }

  bool has_evaluate() const override { return true; }

  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
    outputs[0].set_shape(inputs[0].get_shape());
    const float* from = inputs[0].data<const float>();
    float* to = outputs[0].data<float>();
    const size_t count = inputs[0].get_size();
    for (size_t i = 0; i < count; ++i) to[i] = from[i] * 2;
    return true;
  }
};

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({
    std::make_shared<ov::frontend::onnx::OpExtension<Double>>("Double", "hand"),
}));
