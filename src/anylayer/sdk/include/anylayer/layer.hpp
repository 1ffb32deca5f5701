// Write a layer as a C++17 class:
//
//   #include <anylayer/layer.hpp>
//
//   class Double : public anylayer::Layer {
//    public:
//     using Layer::Layer;
//     void forward(anylayer::InputArrays inputs, anylayer::OutputArrays outputs, anylayer::OutputArrays) override {
//       const float* x = inputs[0].ptr<float>();
//       float* y = outputs[0].ptr<float>();
//       for (std::size_t i = 0; i < outputs[0].total(); ++i) y[i] = 2 * x[i];
//     }
//   };
//   ANYLAYER_REGISTER_LAYER(Double, Double)
//
// and compile it: anylayer build double.cpp -o libdouble.so
#ifndef ANYLAYER_LAYER_HPP
#define ANYLAYER_LAYER_HPP

#include "parallel.hpp"
#include "params.hpp"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

namespace anylayer {

using InputArrays = const Tensors&;
using OutputArrays = const Tensors&;
using Shapes = std::vector<std::vector<int>>;

enum class Status : int32_t {
  ok = ANYLAYER_OK,
  error = ANYLAYER_ERROR,
  not_implemented = ANYLAYER_NOT_IMPLEMENTED,
};

// What an implementation wants of one input or output; see anylayer_edge.
struct Edge {
  DataType dtype = DataType::any;
  Layout layout = Layout::any;
  int in_place = -1;
};

// One way in which an implementation can run.
struct Configuration {
  std::vector<Edge> inputs;
  std::vector<Edge> outputs;
  bool dynamic_batch = false;
  bool reentrant = false;
  // An element of an output depends only on the elements of the inputs at the same position, so that forward may get
  // the arrays in any order of axes. All of them have one shape.
  bool elementwise = false;

  // The same type and layout on every edge.
  static Configuration plain(std::size_t inputs, std::size_t outputs, DataType dtype, Layout layout) {
    Configuration made;
    made.inputs.assign(inputs, Edge{dtype, layout, -1});
    made.outputs.assign(outputs, Edge{dtype, layout, -1});
    return made;
  }
};

// One of several ways to compute a layer. A layer that has only one overrides Layer::forward instead.
class Implementation {
 public:
  virtual ~Implementation() = default;

  virtual std::string name() const { return ""; }

  // The configurations in which it can run, best first. `inputs` are the types that the network has.
  virtual std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) = 0;

  // Accept the configuration that was chosen (ok), change it and have it offered again (not_implemented), or refuse
  // it: throw an Error, or return Status::error.
  virtual Status init(Configuration&) { return Status::ok; }

  virtual void forward(InputArrays inputs, OutputArrays outputs, OutputArrays internals) = 0;
};

// A layer type. anylayer makes one instance for each node and set of input shapes, and calls, in this order: the
// constructor, getImplementations or getSupportedConfigurations, getMemoryShapes, finalize, and then only forward.
class Layer {
 public:
  std::vector<Tensor> blobs;
  std::string name;
  std::string type;

  Layer() = default;
  explicit Layer(const LayerParams& params) : blobs(params.blobs), name(params.name), type(params.type) {}
  virtual ~Layer() = default;

  // Fill the shapes of the outputs and of internal arrays that forward needs. Return true where output 0 may lie
  // over input 0. The order of axes is that of the configuration that was chosen. Without an override, every output
  // has the shape of input 0.
  virtual bool getMemoryShapes(const Shapes& inputs, const int requiredOutputs, Shapes& outputs,
                               Shapes& internals) const {
    (void)internals;
    if (inputs.empty()) throw Error() << "a layer without inputs needs getMemoryShapes";
    outputs.assign(static_cast<std::size_t>(requiredOutputs), inputs[0]);
    return false;
  }

  // Prepare for these shapes. The arrays have no data yet.
  virtual void finalize(InputArrays inputs, OutputArrays outputs) {
    (void)inputs;
    (void)outputs;
  }

  // Compute the outputs. Whatever was in outputs and internals before is undefined.
  virtual void forward(InputArrays inputs, OutputArrays outputs, OutputArrays internals) {
    (void)inputs;
    (void)outputs;
    (void)internals;
    throw Error() << "the class has no forward";
  }

  // Whether several threads may be in forward of one instance. Otherwise anylayer calls one at a time.
  virtual bool reentrant() const { return false; }

  // The configurations of a layer that overrides forward: float32, channels first, as OpenCV gives them. Values that
  // are not floats are handed over as they are.
  virtual std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) {
    Configuration one = Configuration::plain(inputs.size(), static_cast<std::size_t>(outputs), DataType::float32,
                                             Layout::nchw);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!is_float(inputs[i].dtype())) one.inputs[i].dtype = DataType::any;
    one.reentrant = reentrant();
    return {one};
  }

  // As Implementation::init, for a layer that overrides forward.
  virtual Status init(Configuration&) { return Status::ok; }

  // Several implementations, in place of forward; they may depend on the parameters.
  virtual std::vector<std::shared_ptr<Implementation>> getImplementations() { return {}; }

 protected:
  // For a layer whose configuration has float16: convert the inputs to float32, call forward, convert the outputs
  // back. Internal arrays are float32 always.
  void forward_fallback(InputArrays inputs, OutputArrays outputs, OutputArrays internals) {
    std::vector<std::vector<float>> memory;
    memory.reserve(inputs.size() + outputs.size());
    std::vector<Tensor> given, made;
    for (const Tensor& x : inputs) {
      if (x.dtype() != DataType::float16) {
        given.push_back(x);
        continue;
      }
      const uint16_t* from = reinterpret_cast<const uint16_t*>(x.data);
      memory.emplace_back(x.total());
      for (std::size_t i = 0; i < x.total(); ++i) memory.back()[i] = half_to_float(from[i]);
      given.emplace_back(DataType::float32, x.shape(), memory.back().data());
    }
    for (const Tensor& y : outputs) {
      if (y.dtype() != DataType::float16) {
        made.push_back(y);
        continue;
      }
      memory.emplace_back(y.total());
      made.emplace_back(DataType::float32, y.shape(), memory.back().data());
    }
    forward(Tensors(given), Tensors(made), internals);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k].dtype() != DataType::float16) continue;
      const float* from = made[k].ptr<float>();
      uint16_t* to = reinterpret_cast<uint16_t*>(outputs[k].data);
      for (std::size_t i = 0; i < outputs[k].total(); ++i) to[i] = float_to_half(from[i]);
    }
  }
};

// Writes a line to the log, which anylayer prints to stderr with the name of the library.
void log(const std::string& text);

}  // namespace anylayer

#include "detail/library.hpp"
#include "detail/onnxruntime.hpp"

// Register a class as layer type `type` when the library is loaded, also where this stands inside a function, which
// need not be called. Several may stand in a library.
#define ANYLAYER_REGISTER_LAYER(type, cls) ANYLAYER_REGISTER_LAYER_AT(#type, cls, "", __COUNTER__)

// As ANYLAYER_REGISTER_LAYER, for a name that is a string ("my.domain.Interp") and with a line that describes it.
#define ANYLAYER_REGISTER_NAMED_LAYER(name, cls, description) \
  ANYLAYER_REGISTER_LAYER_AT(name, cls, description, __COUNTER__)

// State the library's own version and describe it. Stands once in a library, outside of functions.
#define ANYLAYER_LIBRARY(version, description) \
  static const bool anylayer_described_ = ::anylayer::detail::describe(version, description);

// Have a function without arguments called once, when the process ends. Stands once in a library, outside of functions.
#define ANYLAYER_UNLOAD(function) static const bool anylayer_unloads_ = ::anylayer::detail::unload_with(function);

#define ANYLAYER_REGISTER_LAYER_AT(name, cls, description, number) \
  ANYLAYER_REGISTER_LAYER_JOIN(name, cls, description, number)
#define ANYLAYER_REGISTER_LAYER_JOIN(name, cls, description, number)                \
  [[maybe_unused]] static const auto anylayer_register_##number = [] {              \
    struct anylayer_adds_ {                                                         \
      static bool now() { return ::anylayer::detail::add<cls>(name, description); } \
    };                                                                              \
    return anylayer_adds_();                                                        \
  };                                                                                \
  [[maybe_unused]] static const bool& anylayer_registered_##number =                \
      ::anylayer::detail::Registered<decltype(anylayer_register_##number())>::done;

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#endif
