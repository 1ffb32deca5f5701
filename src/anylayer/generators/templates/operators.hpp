namespace {

using Shapes = std::vector<std::vector<int64_t>>;

// An attribute in the model: its name, and the text that the code is for, or how many numbers the code reads.
struct Param {
    const char* name;
    const char* text;
    std::size_t count;
};

// A layer type with its params, as an operator; the params that the code reads come first. The last inputs are
// blobs. `inputs` and `outputs` are ONNX's numbers of element types. `shapes` gives the shapes of the outputs; it
// returns false for inputs without code. `run` gets the numbers of the params; it returns false where
// an index read from data lies outside of its axis.
struct Kernel {
    const char* name;
    const char* about;
    std::vector<Param> params;
    std::vector<int> inputs, outputs;
    bool (*shapes)(const Shapes& inputs, Shapes& outputs);
    bool (*run)(const Shapes& inputs, const void* const* from, void* const* to, const double* numbers,
                const Parallel& parallel);
};

// Return the numbers of the params that the code reads. Throws where there is no code for these texts.
inline std::vector<double> checked_numbers(const Kernel& kernel, const std::vector<std::string>& texts) {
    std::vector<double> numbers;
    for (std::size_t i = 0; i < kernel.params.size(); ++i) {
        const Param& param = kernel.params[i];
        bool known = param.count != 0 || texts[i] == param.text;
        std::istringstream words(texts[i]);
        words.imbue(std::locale::classic());
        for (std::size_t k = 0; k < param.count && known; ++k) {
            double number = 0;
            char comma = ',';
            known = (k == 0 || words >> comma) && comma == ',' && words >> number;
            numbers.push_back(number);
        }
        if (known && (param.count == 0 || (words >> std::ws).eof())) continue;
        throw std::runtime_error(std::string("parameter ") + param.name + " of operator " + kernel.name + " is '" +
                                 texts[i] + "'; there is code for " + kernel.about);
    }
    return numbers;
}

// Return the shapes of the outputs. Throws where there is no code for these inputs.
inline Shapes checked_shapes(const Kernel& kernel, const Shapes& inputs) {
    Shapes outputs;
    if (kernel.shapes(inputs, outputs)) return outputs;
    std::string text = std::string("operator ") + kernel.name + " has no code for inputs of shape ";
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        text += i ? ", (" : "(";
        for (std::size_t k = 0; k < inputs[i].size(); ++k) text += (k ? ", " : "") + std::to_string(inputs[i][k]);
        text += ")";
    }
    throw std::runtime_error(text + "; there is code for " + kernel.about);
}

inline void checked_run(const Kernel& kernel, const Shapes& inputs, const void* const* from, void* const* to,
                        const double* numbers, const Parallel& parallel) {
    if (kernel.run(inputs, from, to, numbers, parallel)) return;
    throw std::runtime_error(std::string("operator ") + kernel.name + " reads an index outside of its axis");
}

}  // namespace
