// Interp as a layer of OpenCV, in a network of one layer, with functions for ctypes.
#include <opencv2/core/utility.hpp>
#include <opencv2/dnn.hpp>

#include "interp_loop.hpp"

namespace {

class InterpLayer : public cv::dnn::Layer {
 public:
  explicit InterpLayer(const cv::dnn::LayerParams& params)
      : Layer(params), width_(params.get<int>("width")), height_(params.get<int>("height")) {}

  static cv::Ptr<cv::dnn::Layer> create(cv::dnn::LayerParams& params) {
    return cv::Ptr<cv::dnn::Layer>(new InterpLayer(params));
  }

  bool getMemoryShapes(const std::vector<std::vector<int>>& inputs, const int, std::vector<std::vector<int>>& outputs,
                       std::vector<std::vector<int>>&) const CV_OVERRIDE {
    outputs.assign(1, {inputs[0][0], inputs[0][1], height_, width_});
    return false;
  }

  void finalize(cv::InputArrayOfArrays inputs_arr, cv::OutputArrayOfArrays) CV_OVERRIDE {
    std::vector<cv::Mat> inputs;
    inputs_arr.getMatVector(inputs);
    columns_ = interp::columns(inputs[0].size[3], width_);
  }

  void forward(cv::InputArrayOfArrays inputs_arr, cv::OutputArrayOfArrays outputs_arr,
               cv::OutputArrayOfArrays) CV_OVERRIDE {
    std::vector<cv::Mat> inputs, outputs;
    inputs_arr.getMatVector(inputs);
    outputs_arr.getMatVector(outputs);
    const int height = inputs[0].size[2], width = inputs[0].size[3];
    const int count = inputs[0].size[0] * inputs[0].size[1] * height_;
    const float* from = inputs[0].ptr<float>();
    float* to = outputs[0].ptr<float>();
    cv::parallel_for_(cv::Range(0, count), [&](const cv::Range& r) {
      interp::rows(from, to, height, width, height_, columns_, r.start, r.end);
    });
  }

 private:
  int width_, height_;
  std::vector<interp::Column> columns_;
};

struct Network {
  cv::dnn::Net net;
  cv::Mat input, output;
};

}  // namespace

#define EXPORT __attribute__((visibility("default")))

extern "C" {

EXPORT void* interp_open(float* data, const int* sizes, int height, int width, int threads) {
  cv::setNumThreads(threads);
  cv::dnn::LayerFactory::registerLayer("AnyInterp", InterpLayer::create);
  auto* network = new Network;
  cv::dnn::LayerParams params;
  params.set("height", height);
  params.set("width", width);
  network->net.addLayerToPrev("interp", "AnyInterp", params);
  network->net.setPreferableBackend(cv::dnn::DNN_BACKEND_OPENCV);
  network->input = cv::Mat(4, sizes, CV_32F, data);
  return network;
}

// Run a frame, and return where its output is.
EXPORT const float* interp_run(void* opened) {
  auto* network = static_cast<Network*>(opened);
  network->net.setInput(network->input);
  network->output = network->net.forward();
  return network->output.ptr<float>();
}

EXPORT const char* interp_version() { return CV_VERSION; }
}
