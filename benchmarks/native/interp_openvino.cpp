// Interp as an operation of an OpenVINO extension.
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/core/parallel.hpp>
#include <openvino/frontend/onnx/extension/op.hpp>
#include <openvino/op/op.hpp>

#include "interp_loop.hpp"

class Interp : public ov::op::Op {
 public:
  OPENVINO_OP("Interp", "native");

  Interp() = default;
  Interp(const ov::OutputVector& inputs, int64_t height, int64_t width) : Op(inputs), height_(height), width_(width) {
    constructor_validate_and_infer_types();
  }

  void validate_and_infer_types() override {
    const auto shape = get_input_partial_shape(0);
    set_output_type(0, get_input_element_type(0), {shape[0], shape[1], height_, width_});
    if (shape.is_static()) columns_ = interp::columns(static_cast<int>(shape[3].get_length()), static_cast<int>(width_));
  }

  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
    return std::make_shared<Interp>(inputs, height_, width_);
  }

  bool visit_attributes(ov::AttributeVisitor& visitor) override {
    visitor.on_attribute("height", height_);
    visitor.on_attribute("width", width_);
    return true;
  }

  bool has_evaluate() const override { return true; }

  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
    const ov::Shape shape = inputs[0].get_shape();
    const int height = static_cast<int>(shape[2]), width = static_cast<int>(shape[3]);
    const int64_t count = static_cast<int64_t>(shape[0] * shape[1]) * height_;
    outputs[0].set_shape({shape[0], shape[1], static_cast<size_t>(height_), static_cast<size_t>(width_)});
    const float* from = inputs[0].data<const float>();
    float* to = outputs[0].data<float>();
    ov::parallel_nt(0, [&](const int part, const int parts) {
      interp::rows(from, to, height, width, static_cast<int>(height_), columns_, count * part / parts,
                   count * (part + 1) / parts);
    });
    return true;
  }

 private:
  int64_t height_ = 0, width_ = 0;
  std::vector<interp::Column> columns_;
};

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({
    std::make_shared<ov::OpExtension<Interp>>(),
    std::make_shared<ov::frontend::onnx::OpExtension<Interp>>("Interp", "native"),
}));
