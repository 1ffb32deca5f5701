using cv::dnn::LayerParams;
using cv::dnn::MatShape;

namespace {

// Divides the iterations of a loop among OpenCV's threads, where there is enough to do.
struct Parallel {
    template <class Body>
    void operator()(int64_t count, int64_t work, const Body& body) const {
        if (count < 2 || count > std::numeric_limits<int>::max() || work < 20000) {
            body(int64_t(0), count);
            return;
        }
        const double stripes = double(std::min(count, work / 10000 + 1));
        cv::parallel_for_(
            cv::Range(0, int(count)), [&](const cv::Range& range) { body(range.start, range.end); }, stripes);
    }
};

// The params of a layer as numbers and texts. OpenCV passes messages that it does not know only inside of
// python_param { param_str: "{json}" }; these are read from there.
class Params {
public:
    explicit Params(const LayerParams& params) : params_(params) {
        if (params.has("param_str")) {
            storage_.open(params.get<cv::String>("param_str"),
                          cv::FileStorage::READ | cv::FileStorage::MEMORY | cv::FileStorage::FORMAT_JSON);
        }
    }

    bool has(const std::string& name) const { return params_.has(name) || !stored(name).empty(); }

    bool is(const std::string& name, const std::vector<double>& wanted) const {
        const std::vector<double> found = numbers(name);
        if (found.size() != wanted.size()) return false;
        for (size_t i = 0; i < found.size(); ++i) {
            if (!(std::abs(found[i] - wanted[i]) <= 1e-6 * std::abs(wanted[i]))) return false;
        }
        return true;
    }

    bool is(const std::string& name, const std::string& wanted) const {
        if (params_.has(name)) return params_.get(name).isString() && params_.get<cv::String>(name) == wanted;
        const cv::FileNode node = stored(name);
        return node.isString() && std::string(node) == wanted;
    }

    // Return whether all params have one of these names, or one that OpenCV itself adds.
    bool only(const std::vector<std::string>& names) const {
        for (auto it = params_.begin(); it != params_.end(); ++it) {
            if (!known(names, it->first)) return false;
        }
        if (!storage_.isOpened()) return true;
        for (const std::string& name : storage_.root().keys()) {
            if (!known(names, name)) return false;
        }
        return true;
    }

    // Return how many numbers a param has; 0 where one of them is not a number.
    size_t count(const std::string& name) const {
        const std::vector<double> found = numbers(name);
        for (double one : found) {
            if (std::isnan(one)) return 0;
        }
        return found.size();
    }

    // Return a number that a layer computes with.
    double number(const std::string& name, size_t at) const { return numbers(name).at(at); }

private:
    static bool known(const std::vector<std::string>& names, const std::string& name) {
        for (const char* own :
             {"module", "layer", "param_str", "share_in_parallel", "depth", "has_dynamic_shapes"}) {
            if (name == own) return true;
        }
        return std::find(names.begin(), names.end(), name) != names.end();
    }

    cv::FileNode stored(const std::string& name) const {
        return storage_.isOpened() ? storage_.root()[name] : cv::FileNode();
    }

    static double number(const cv::String& text) {
        if (text == "true" || text == "false") return text == "true";
        char* end = nullptr;
        const double found = std::strtod(text.c_str(), &end);
        return end != text.c_str() && !*end ? found : std::nan("");
    }

    std::vector<double> numbers(const std::string& name) const {
        std::vector<double> found;
        if (params_.has(name)) {
            const cv::dnn::DictValue& value = params_.get(name);
            for (int i = 0; i < value.size(); ++i) {
                found.push_back(value.isString() ? number(value.get<cv::String>(i)) : value.get<double>(i));
            }
            return found;
        }
        const cv::FileNode node = stored(name);
        if (node.isSeq()) {
            for (size_t i = 0; i < node.size(); ++i) found.push_back(double(node[int(i)]));
        } else if (node.isString()) {
            found.push_back(number(cv::String(std::string(node))));
        } else if (!node.empty()) {
            found.push_back(double(node));
        }
        return found;
    }

    LayerParams params_;
    cv::FileStorage storage_;
};

// Return whether a blob has these values: their number, and the FNV-1a hash of their bytes.
inline bool same_blob(const std::vector<cv::Mat>& blobs, size_t at, size_t count, uint64_t wanted) {
    if (at >= blobs.size() || blobs[at].total() != count || blobs[at].type() != CV_32F) return false;
    const cv::Mat blob = blobs[at].isContinuous() ? blobs[at] : blobs[at].clone();
    uint64_t hash = 14695981039346656037ull;
    for (size_t i = 0; i < count * sizeof(float); ++i) hash = (hash ^ blob.data[i]) * 1099511628211ull;
    return hash == wanted;
}

inline bool positive(const std::vector<MatShape>& shapes) {
    for (const MatShape& shape : shapes) {
        for (int size : shape) {
            if (size < 1) return false;
        }
    }
    return true;
}

inline std::string text_of(const std::vector<MatShape>& shapes) {
    std::string text;
    for (const MatShape& shape : shapes) {
        text += text.empty() ? "(" : ", (";
        for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
        text += ")";
    }
    return text;
}

// The code for some params, and for the shapes of inputs for which `shapes` returns true.
struct Case {
    bool (*suits)(const Params& params, const std::vector<cv::Mat>& blobs);
    bool (*shapes)(const std::vector<MatShape>& inputs, std::vector<MatShape>& outputs);
    bool (*run)(const Params& params, const std::vector<cv::Mat>& blobs, const std::vector<cv::Mat>& inputs,
                std::vector<cv::Mat>& outputs);
};

class GeneratedLayer : public cv::dnn::Layer {
public:
    GeneratedLayer(const LayerParams& params, const std::vector<Case>& cases, const char* known)
        : cv::dnn::Layer(params), params_(params), known_(known) {
        for (const Case& one : cases) {
            if (one.suits(params_, blobs)) cases_.push_back(one);
        }
        if (cases_.empty()) {
            CV_Error(cv::Error::StsNotImplemented,
                     "layer '" + name + "' has params or blobs that no code was generated for; there is code " +
                         "for " + known);
        }
    }

    bool getMemoryShapes(const std::vector<MatShape>& inputs, const int /* required */,
                         std::vector<MatShape>& outputs,
                         std::vector<MatShape>& /* internals */) const CV_OVERRIDE {
        find(inputs, outputs);
        return false;
    }

    void forward(cv::InputArrayOfArrays inputs_arr, cv::OutputArrayOfArrays outputs_arr,
                 cv::OutputArrayOfArrays internals_arr) CV_OVERRIDE {
        if (inputs_arr.depth() == CV_16S) {
            forward_fallback(inputs_arr, outputs_arr, internals_arr);
            return;
        }
        std::vector<cv::Mat> inputs, outputs;
        inputs_arr.getMatVector(inputs);
        outputs_arr.getMatVector(outputs);
        std::vector<MatShape> given, gives;
        for (const cv::Mat& input : inputs) {
            given.push_back(cv::dnn::shape(input));
            if (input.type() != CV_32F || !input.isContinuous()) {
                CV_Error(cv::Error::StsNotImplemented, "layer '" + name + "' takes continuous arrays of float32");
            }
        }
        if (!find(given, gives).run(params_, blobs, inputs, outputs)) {
            CV_Error(cv::Error::StsOutOfRange, "layer '" + name + "' reads an index that is outside of its axis");
        }
    }

private:
    const Case& find(const std::vector<MatShape>& inputs, std::vector<MatShape>& outputs) const {
        if (positive(inputs)) {
            for (const Case& one : cases_) {
                outputs.clear();
                if (one.shapes(inputs, outputs) && positive(outputs)) return one;
            }
        }
        CV_Error(cv::Error::StsNotImplemented, "layer '" + name + "' has no code for inputs of shape " +
                                                   text_of(inputs) + "; there is code for " + known_);
    }

    Params params_;
    std::vector<Case> cases_;
    std::string known_;
    Keeper keeper_;
};

}  // namespace
