// A layer of a library as an operation of an OpenVINO extension: the node has the address of the layer's function and
// instance, so it holds in this process only.
#include <anylayer/abi.h>

#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/frontend/onnx/extension/op.hpp>
#include <openvino/op/op.hpp>

class Wrapped : public ov::op::Op {
 public:
  OPENVINO_OP("Wrapped", "native");

  Wrapped() = default;
  Wrapped(const ov::OutputVector& inputs, int64_t forward, int64_t instance, std::vector<int64_t> sizes)
      : Op(inputs), forward_(forward), instance_(instance), sizes_(std::move(sizes)) {
    constructor_validate_and_infer_types();
  }

  void validate_and_infer_types() override {
    set_output_type(0, get_input_element_type(0), ov::Shape(sizes_.begin(), sizes_.end()));
  }

  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
    return std::make_shared<Wrapped>(inputs, forward_, instance_, sizes_);
  }

  bool visit_attributes(ov::AttributeVisitor& visitor) override {
    visitor.on_attribute("forward", forward_);
    visitor.on_attribute("instance", instance_);
    visitor.on_attribute("sizes", sizes_);
    return true;
  }

  bool has_evaluate() const override { return true; }

  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
    std::vector<anylayer_tensor> tensors;
    std::vector<std::vector<int64_t>> sizes;
    tensors.reserve(inputs.size() + 1);
    sizes.reserve(inputs.size());
    std::vector<const anylayer_tensor*> given;
    for (const auto& input : inputs) {
      const auto& shape = input.get_shape();
      sizes.emplace_back(shape.begin(), shape.end());
      tensors.push_back({sizeof(anylayer_tensor), ANYLAYER_FLOAT32, static_cast<int32_t>(shape.size()), ANYLAYER_NCHW,
                         sizes.back().data(), const_cast<void*>(input.data()), ""});
      given.push_back(&tensors.back());
    }
    tensors.push_back({sizeof(anylayer_tensor), ANYLAYER_FLOAT32, static_cast<int32_t>(sizes_.size()), ANYLAYER_NCHW,
                       sizes_.data(), outputs[0].data(), ""});
    const anylayer_tensor* made = &tensors.back();
    const anylayer_call call{sizeof(anylayer_call), 1, static_cast<uint32_t>(given.size()), 1, 0, 0, given.data(),
                             &made, nullptr};
    char text[256] = "";
    anylayer_message message{sizeof(anylayer_message), sizeof(text), text};
    const auto forward = reinterpret_cast<decltype(anylayer_type::forward)>(forward_);
    if (forward(reinterpret_cast<void*>(instance_), &call, &message) != ANYLAYER_OK) OPENVINO_THROW(text);
    return true;
  }

 private:
  int64_t forward_ = 0, instance_ = 0;
  std::vector<int64_t> sizes_;
};

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({
    std::make_shared<ov::OpExtension<Wrapped>>(),
    std::make_shared<ov::frontend::onnx::OpExtension<Wrapped>>("Wrapped", "native"),
}));
