// A layer as an operation inside a model of OpenVINO, so that the engine is called once for the whole network.
// anylayer compiles this file once for each OpenVINO, whose interface is C++ and differs between versions. The operator
// NativeLayer of domain "anylayer.native" has the address of an anylayer_embedded as its attribute, so it holds in one
// process only.
#include <openvino/core/extension.hpp>
#include <openvino/core/parallel.hpp>
#include <openvino/frontend/onnx/extension/op.hpp>
#include <openvino/op/op.hpp>

#include <anylayer/detail/embedded.hpp>

namespace {

using anylayer::detail::EmbeddedLayer;

// Run the parts of a loop in the engine's threads.
int32_t parallel(void*, uint64_t parts, void (*part)(void*, std::size_t), void* given) {
  ov::parallel_for(parts, [=](uint64_t i) { part(given, static_cast<std::size_t>(i)); });
  return 1;
}

const anylayer_host host{sizeof(anylayer_host), 0, nullptr, parallel};

class NativeLayer : public ov::op::Op {
 public:
  OPENVINO_OP("NativeLayer", "anylayer.native");

  void validate_and_infer_types() override {
    if (!layer_) return;
    const anylayer_call& types = layer_->types();
    set_output_size(types.output_count);
    for (uint32_t i = 0; i < types.output_count; ++i) {
      const anylayer_tensor& type = *types.outputs[i];
      set_output_type(i, ov::element::f32, ov::Shape(type.sizes, type.sizes + type.rank));
    }
  }

  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
    auto made = std::make_shared<NativeLayer>();
    made->call_ = call_;
    made->layer_ = layer_;
    made->set_arguments(inputs);
    made->validate_and_infer_types();
    return made;
  }

  bool visit_attributes(ov::AttributeVisitor& visitor) override {
    visitor.on_attribute("call", call_);
    if (call_ && !layer_) layer_ = std::make_shared<EmbeddedLayer>(reinterpret_cast<const anylayer_embedded*>(call_));
    return true;
  }

  bool has_evaluate() const override { return layer_ != nullptr; }

  // Returns true also after an error, which anylayer looks for after each run: OpenVINO 2026.4 goes on where an
  // operation returns false or throws, and its request may crash in the next run.
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
    auto frame = layer_->take();
    void** address = frame->addresses.data();
    for (const ov::Tensor& x : inputs) *address++ = const_cast<void*>(static_cast<const void*>(x.data()));
    for (ov::Tensor& y : outputs) *address++ = y.data();
    layer_->run(*frame, host);
    layer_->give_back(std::move(frame));
    return true;
  }

 private:
  int64_t call_ = 0;
  std::shared_ptr<EmbeddedLayer> layer_;
};

}  // namespace

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>({
    std::make_shared<ov::frontend::onnx::OpExtension<NativeLayer>>("NativeLayer", "anylayer.native"),
}));
