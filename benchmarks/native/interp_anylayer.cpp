// Interp as a layer of anylayer.
#include <anylayer/layer.hpp>

#include "interp_loop.hpp"

namespace {

using namespace anylayer;

class InterpLayer : public Layer {
 public:
  explicit InterpLayer(const LayerParams& params)
      : Layer(params), width_(params.get<int>("width")), height_(params.get<int>("height")) {}

  bool getMemoryShapes(const Shapes& inputs, const int, Shapes& outputs, Shapes&) const override {
    outputs.assign(1, {inputs[0][0], inputs[0][1], height_, width_});
    return false;
  }

  void finalize(InputArrays inputs, OutputArrays) override { columns_ = interp::columns(inputs[0].size[3], width_); }

  bool reentrant() const override { return true; }

  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    const int height = inputs[0].size[2], width = inputs[0].size[3];
    const int64_t count = static_cast<int64_t>(inputs[0].size[0]) * inputs[0].size[1] * height_;
    const float* from = inputs[0].ptr<float>();
    float* to = outputs[0].ptr<float>();
    parallel_for(count, 1 + (1 << 15) / width_, [&](int64_t begin, int64_t end) {
      interp::rows(from, to, height, width, height_, columns_, begin, end);
    });
  }

 private:
  int width_, height_;
  std::vector<interp::Column> columns_;
};

}  // namespace

ANYLAYER_REGISTER_LAYER(Interp, InterpLayer)
