// Small layers for the tests: each shows one rule of the contract, or breaks it.
#include <anylayer/layer.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>

using namespace anylayer;

namespace {

void copy(InputArrays inputs, OutputArrays outputs) {
  std::memcpy(outputs[0].data, inputs[0].data, outputs[0].total() * outputs[0].elemSize());
}

template <typename T>
std::string joined(const std::vector<T>& values) {
  std::ostringstream text;
  for (const T& value : values) text << "<" << value << ">";
  return text.str();
}

// A layer whose parameters are read in its constructor, and told in an error.
struct Params : Layer {
  explicit Params(const LayerParams& params) : Layer(params) {
    Error error;
    error << "a=" << params.get<float>("a") << " list=" << joined(params.get<std::vector<int>>("list"))
          << " s=" << params.get<std::string>("s") << " e=" << params.get<std::string>("e")
          << " b=" << params.get<bool>("b") << " int=" << params.get<int>("b") << " wide=" << params.get<int64_t>("wide")
          << " one=" << joined(params.get<std::vector<double>>("a")) << " inner=" << params.get<int>("inner")
          << " deep=" << params.message("probe_param").message("nested").get<int>("inner")
          << " times=" << params.messages("many").size() << " default=" << params.get<int>("gone", 7)
          << " has=" << params.has("gone") << " name=" << name << " type=" << type;
    throw error;
  }
};

// Reads the parameter "read" as the type that "as" names.
struct Reads : Layer {
  explicit Reads(const LayerParams& params) : Layer(params) {
    const std::string as = params.get<std::string>("as");
    if (as == "int") params.get<int>("read");
    if (as == "unsigned") params.get<unsigned>("read");
    if (as == "float") params.get<float>("read");
    if (as == "bool") params.get<bool>("read");
    if (as == "message") params.message("read");
  }
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override { copy(inputs, outputs); }
};

// Adds all of its blobs' values; refuses a blob whose name is not the parameter "name".
struct Blobs : Layer {
  explicit Blobs(const LayerParams& params) : Layer(params) {
    for (const Tensor& blob : blobs)
      if (blob.name() != params.get<std::string>("name", "")) ANYLAYER_THROW << "a blob is called " << blob.name();
  }
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    float sum = 0;
    for (const Tensor& blob : blobs) {
      ANYLAYER_ASSERT(blob.type() == 5 && blob.dtype() == DataType::float32);
      for (std::size_t i = 0; i < blob.total(); ++i) sum += blob.ptr<float>()[i];
    }
    for (std::size_t i = 0; i < outputs[0].total(); ++i) outputs[0].ptr<float>()[i] = inputs[0].ptr<float>()[i] + sum;
  }
};

// Computes 3 * x in an internal array; with "bad" it reads that before it is written.
struct Internals : Layer {
  bool bad;
  explicit Internals(const LayerParams& params) : Layer(params), bad(params.get<bool>("bad", false)) {}
  bool getMemoryShapes(const Shapes& inputs, const int, Shapes& outputs, Shapes& internals) const override {
    outputs.assign(1, inputs[0]);
    internals.assign(2, inputs[0]);
    return true;
  }
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays internals) override {
    float* twice = internals[1].ptr<float>();
    for (std::size_t i = 0; i < outputs[0].total(); ++i) {
      if (!bad) twice[i] = 2 * inputs[0].ptr<float>()[i];
      outputs[0].ptr<float>()[i] = inputs[0].ptr<float>()[i] + twice[i];
    }
  }
};

struct Unfilled : Layer {
  using Layer::Layer;
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    std::memcpy(outputs[0].data, inputs[0].data, (outputs[0].total() - 3) * outputs[0].elemSize());
  }
};

struct WritesInput : Layer {
  using Layer::Layer;
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    inputs[0].ptr<float>()[0] = 9;
    copy(inputs, outputs);
  }
};

// Writes a line to the log for each call.
struct Logs : Layer {
  explicit Logs(const LayerParams& params) : Layer(params) { log("create " + name); }
  ~Logs() override { log("destroy " + name); }
  bool getMemoryShapes(const Shapes& inputs, const int required, Shapes& outputs, Shapes&) const override {
    log("getMemoryShapes " + joined(inputs[0]) + " " + std::to_string(required));
    outputs.assign(1, inputs[0]);
    return false;
  }
  void finalize(InputArrays inputs, OutputArrays outputs) override {
    ANYLAYER_ASSERT(inputs[0].data == nullptr && outputs[0].data == nullptr);
    log("finalize " + joined(inputs[0].shape()) + " " + joined(outputs[0].shape()));
  }
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    log("forward " + std::to_string(threads()));
    copy(inputs, outputs);
  }
};

// Prints a line for each call by printf, std::cout and the log.
struct Prints : Layer {
  using Layer::Layer;
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    std::printf("by printf\n");
    std::cout << "by cout\n";
    log("by log");
    copy(inputs, outputs);
  }
};

// Adds the index of the channel to each value, channels being where `axis` is.
template <int axis, Layout order>
struct Channels : Layer {
  using Layer::Layer;
  std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) override {
    return {Configuration::plain(inputs.size(), static_cast<std::size_t>(outputs), DataType::float32, order)};
  }
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    std::size_t inner = 1;
    for (int i = axis + 1; i < 4; ++i) inner *= static_cast<std::size_t>(inputs[0].size[i]);
    const auto channels = static_cast<std::size_t>(inputs[0].size[axis]);
    for (std::size_t i = 0; i < outputs[0].total(); ++i)
      outputs[0].ptr<float>()[i] = inputs[0].ptr<float>()[i] + static_cast<float>(i / inner % channels);
  }
};
using First = Channels<1, Layout::nchw>;
using Last = Channels<3, Layout::nhwc>;
using Blocked = Channels<1, Layout::blocked>;

// Works on half precision alone.
struct Half : Layer {
  using Layer::Layer;
  std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) override {
    return {Configuration::plain(inputs.size(), static_cast<std::size_t>(outputs), DataType::float16, Layout::any)};
  }
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays internals) override {
    if (inputs.depth() == 3) {  // CV_16S
      forward_fallback(inputs, outputs, internals);
      return;
    }
    for (std::size_t i = 0; i < outputs[0].total(); ++i) outputs[0].ptr<float>()[i] = 2 * inputs[0].ptr<float>()[i];
  }
};

// Multiplies by two over its input.
struct InPlace : Layer {
  using Layer::Layer;
  std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) override {
    auto found = Layer::getSupportedConfigurations(inputs, outputs);
    found[0].outputs[0].in_place = 0;
    return found;
  }
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    ANYLAYER_ASSERT(inputs[0].data == outputs[0].data);
    for (std::size_t i = 0; i < outputs[0].total(); ++i) outputs[0].ptr<float>()[i] *= 2;
  }
};

// An implementation that adds `number`, and treats the configuration as `how` says.
struct Adds : Implementation {
  std::string how;
  float number;
  Adds(std::string how, float number) : how(std::move(how)), number(number) {}
  std::string name() const override { return how; }
  std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) override {
    auto one = Configuration::plain(inputs.size(), static_cast<std::size_t>(outputs),
                                    how == "double" ? DataType::float64 : DataType::float32, Layout::any);
    one.dynamic_batch = how == "changes";
    if (how == "changes") one.outputs[0].in_place = 0;
    return {one};
  }
  Status init(Configuration& configuration) override {
    if (how == "refuses") throw Error() << "only on Sundays";
    if (how == "status") return Status::error;
    if (how == "never") return Status::not_implemented;
    if (how == "changes" && configuration.dynamic_batch) {
      configuration.dynamic_batch = false;
      configuration.outputs[0].in_place = -1;
      return Status::not_implemented;
    }
    return Status::ok;
  }
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    for (std::size_t i = 0; i < outputs[0].total(); ++i)
      if (how == "double") outputs[0].ptr<double>()[i] = inputs[0].ptr<double>()[i] + number;
      else outputs[0].ptr<float>()[i] = inputs[0].ptr<float>()[i] + number;
  }
};

// Offers the implementations that the parameter "offers" lists; the k-th adds k.
struct Several : Layer {
  std::vector<std::string> offers;
  explicit Several(const LayerParams& params) : Layer(params), offers(params.get<std::vector<std::string>>("offers")) {}
  std::vector<std::shared_ptr<Implementation>> getImplementations() override {
    std::vector<std::shared_ptr<Implementation>> found;
    for (std::size_t k = 0; k < offers.size(); ++k)
      found.push_back(std::make_shared<Adds>(offers[k], static_cast<float>(k)));
    return found;
  }
};

// Throws where "in" says, what "what" says.
struct Throws : Layer {
  std::string in, what;
  explicit Throws(const LayerParams& params)
      : Layer(params), in(params.get<std::string>("in", "forward")), what(params.get<std::string>("what", "error")) {
    fail("create");
  }
  void fail(const char* where) const {
    if (in != where) return;
    if (what == "error") throw std::runtime_error("it is broken");
    if (what == "number") throw 42;
    if (what == "long") throw Error(std::string(100000, 'x'));
    if (what == "assert") ANYLAYER_ASSERT(in.empty());
    throw std::bad_alloc();
  }
  bool getMemoryShapes(const Shapes& inputs, const int required, Shapes& outputs, Shapes& internals) const override {
    fail("shapes");
    return Layer::getMemoryShapes(inputs, required, outputs, internals);
  }
  void finalize(InputArrays, OutputArrays) override { fail("finalize"); }
  void forward(InputArrays, OutputArrays, OutputArrays) override {
    fail("forward");
    parallel_for(1000, 1, [&](int64_t, int64_t) { throw std::runtime_error("a thread is broken"); });
  }
};

// Declares the shapes that "shape" says, "count" times.
struct Declares : Layer {
  std::vector<int> shape;
  int count;
  explicit Declares(const LayerParams& params)
      : Layer(params), shape(params.get<std::vector<int>>("shape")), count(params.get<int>("count", 1)) {}
  bool getMemoryShapes(const Shapes&, const int, Shapes& outputs, Shapes&) const override {
    outputs.assign(static_cast<std::size_t>(count), shape);
    return false;
  }
  void forward(InputArrays, OutputArrays outputs, OutputArrays) override {
    for (const Tensor& y : outputs)
      for (std::size_t i = 0; i < y.total(); ++i) y.ptr<float>()[i] = 1;
  }
};

std::atomic<int> inside{0};
std::atomic<int> most{0};

// Gives how many threads have been in forward at the same time.
template <bool parallel>
struct Crowd : Layer {
  using Layer::Layer;
  bool reentrant() const override { return parallel; }
  void forward(InputArrays, OutputArrays outputs, OutputArrays) override {
    const int now = ++inside;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    for (std::size_t i = 0; i < outputs[0].total(); ++i) outputs[0].ptr<float>()[i] = static_cast<float>(most);
    --inside;
    if (!inside) most = 0;
  }
};
using Alone = Crowd<false>;
using Together = Crowd<true>;

// The index of the largest value of each row, and the value.
struct Largest : Layer {
  bool lazy;
  explicit Largest(const LayerParams& params) : Layer(params), lazy(params.get<bool>("lazy", false)) {}
  std::vector<Configuration> getSupportedConfigurations(InputArrays inputs, int outputs) override {
    auto found = Layer::getSupportedConfigurations(inputs, outputs);
    found[0].outputs[0].dtype = DataType::int64;
    return found;
  }
  bool getMemoryShapes(const Shapes& inputs, const int required, Shapes& outputs, Shapes&) const override {
    outputs.assign(static_cast<std::size_t>(required), {inputs[0][0]});
    return false;
  }
  void forward(InputArrays inputs, OutputArrays outputs, OutputArrays) override {
    const Tensor& x = inputs[0];
    for (int i = 0; i < x.size[0] - lazy; ++i) {
      int best = 0;
      for (int k = 1; k < x.size[1]; ++k)
        if (x.at<float>(i, k) > x.at<float>(i, best)) best = k;
      outputs[0].at<int64_t>(i) = best;
      if (outputs.size() > 1) outputs[1].at<float>(i) = x.at<float>(i, best);
    }
  }
};

}  // namespace

ANYLAYER_LIBRARY("2.5", "layers that show the rules")
ANYLAYER_REGISTER_LAYER(Params, Params)
ANYLAYER_REGISTER_LAYER(Reads, Reads)
ANYLAYER_REGISTER_LAYER(Blobs, Blobs)
ANYLAYER_REGISTER_LAYER(Internals, Internals)
ANYLAYER_REGISTER_LAYER(Unfilled, Unfilled)
ANYLAYER_REGISTER_LAYER(WritesInput, WritesInput)
ANYLAYER_REGISTER_LAYER(Logs, Logs)
ANYLAYER_REGISTER_LAYER(Prints, Prints)
ANYLAYER_REGISTER_NAMED_LAYER("First", First, "Channels are axis 1.")
ANYLAYER_REGISTER_LAYER(Last, Last)
ANYLAYER_REGISTER_LAYER(Blocked, Blocked)
ANYLAYER_REGISTER_LAYER(Half, Half)
ANYLAYER_REGISTER_LAYER(InPlace, InPlace)
ANYLAYER_REGISTER_LAYER(Several, Several)
ANYLAYER_REGISTER_LAYER(Throws, Throws)
ANYLAYER_REGISTER_LAYER(Declares, Declares)
ANYLAYER_REGISTER_LAYER(Alone, Alone)
ANYLAYER_REGISTER_LAYER(Together, Together)
ANYLAYER_REGISTER_LAYER(Largest, Largest)
