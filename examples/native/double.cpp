// A layer that multiplies its input by two, whatever its shape and order of axes: the doubling kernel of Inference
// Engine's document on custom layers. It offers two implementations, and the second writes over its input.
#include <anylayer/layer.hpp>

namespace {

using namespace anylayer;

void twice(const float* from, float* to, int64_t count) {
  parallel_for(count, 1 << 16, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = from[i] * 2;
  });
}

class Plain : public Implementation {
 public:
  std::string name() const override { return "plain"; }

  std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) override {
    if (inputs.size() != 1 || outputs != 1) ANYLAYER_THROW << "incorrect number of input or output edges";
    Configuration one = Configuration::plain(1, 1, DataType::float32, Layout::any);
    one.dynamic_batch = true;
    one.reentrant = true;
    one.elementwise = true;
    return {one};
  }

  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    twice(inputs[0].ptr<float>(), outputs[0].ptr<float>(), static_cast<int64_t>(outputs[0].total()));
  }
};

class InPlace : public Plain {
 public:
  std::string name() const override { return "in place"; }

  std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) override {
    std::vector<Configuration> found = Plain::getSupportedConfigurations(inputs, outputs);
    found[0].outputs[0].in_place = 0;
    return found;
  }

  // The configuration that anylayer has chosen: output 0 has to lie over input 0, and no input over anything.
  Status init(Configuration& configuration) override {
    if (configuration.outputs[0].in_place < 0) ANYLAYER_THROW << "output 0 must share the memory of input 0";
    return Status::ok;
  }
};

class Double : public Layer {
 public:
  using Layer::Layer;

  std::vector<std::shared_ptr<Implementation>> getImplementations() override {
    return {std::make_shared<Plain>(), std::make_shared<InPlace>()};
  }
};

}  // namespace

ANYLAYER_LIBRARY("1.0", "the layers of two documents on custom layers")
ANYLAYER_REGISTER_NAMED_LAYER("Double", Double, "Multiply the input by two.")
