// Runs the layers in OpenCV, and compares them with NumPy: test_layers test_data.bin
#include "layers.hpp"

#include <opencv2/dnn.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <vector>

using cv::dnn::LayerParams;

namespace {

// The largest difference, relative to the largest absolute value of an output.
const double TOLERANCE = INSERT_tolerance;

cv::Mat read(std::ifstream& file, const std::vector<int>& shape) {
    cv::Mat found(int(shape.size()), shape.data(), CV_32F);
    file.read(found.ptr<char>(), std::streamsize(found.total() * sizeof(float)));
    if (!file) CV_Error(cv::Error::StsError, "the data of the test is not complete");
    return found;
}

// Compares two arrays. They may always differ by the floor: the rounding of float32 after a function with a small
// range, such as a softmax.
bool same(const char* type, const cv::Mat& got, const cv::Mat& want, const double floor) {
    double error = 0, scale = 1e-6;
    if (got.total() != want.total()) {
        std::printf("%s: %zu numbers, not %zu\n", type, got.total(), want.total());
        return false;
    }
    for (size_t i = 0; i < want.total(); ++i) {
        const double a = got.ptr<float>()[i], b = want.ptr<float>()[i];
        if (a == b || (std::isnan(a) && std::isnan(b))) continue;
        const double difference = std::abs(a - b);
        error = difference <= error ? error : difference;
    }
    for (size_t i = 0; i < want.total(); ++i) {
        const double size = std::abs(want.ptr<float>()[i]);
        if (std::isfinite(size) && size > scale) scale = size;
    }
    std::printf("%s in OpenCV %s: largest difference %.3g, largest value %.3g\n", type, CV_VERSION, error,
                scale);
    return error <= std::max(TOLERANCE * scale, floor);
}

// Runs one layer as a network of its own.
bool run(LayerParams params, std::ifstream& file, const std::vector<std::vector<int>>& inputs,
         const std::vector<std::vector<int>>& outputs, const std::vector<double>& floors) {
    cv::dnn::Net net;
    params.name = "layer";
    const int id = net.addLayer(params.name, params.type, params);
    std::vector<cv::String> names;
    for (size_t i = 0; i < inputs.size(); ++i) {
        names.push_back("x" + std::to_string(i));
        net.connect(0, int(i), id, int(i));
    }
    net.setInputsNames(names);
    for (size_t i = 0; i < inputs.size(); ++i) net.setInput(read(file, inputs[i]), names[i]);
    std::vector<std::vector<cv::Mat>> results;
    net.forward(results, std::vector<cv::String>(1, params.name));
    bool good = results[0].size() >= outputs.size();
    for (size_t i = 0; i < outputs.size(); ++i) {
        const cv::Mat want = read(file, outputs[i]);
        good = good && same(params.type.c_str(), results[0][i], want, floors[i]);
    }
    return good;
}

INSERT_cases
}  // namespace

int main(int count, char** words) {
    numpy_layers::register_layers();
    numpy_layers::register_layers();  // a second time changes nothing
    std::ifstream file(count > 1 ? words[1] : "test_data.bin", std::ios::binary);
    bool good = true;
INSERT_calls
    return good ? 0 : 1;
}
