
namespace {

using namespace onnxruntime_api;

Status shape_of(const void* value, std::vector<int64_t>& shape) {
    void* info = nullptr;
    if (Status bad = call(kTypeAndShape, value, &info)) return bad;
    std::size_t rank = 0;
    Status bad = call(kRank, static_cast<const void*>(info), &rank);
    if (!bad) {
        shape.resize(rank);
        bad = call(kSizes, static_cast<const void*>(info), shape.data(), rank);
    }
    reinterpret_cast<void (*)(void*)>(table[kReleaseTypeAndShape])(info);
    return bad;
}

// A node of the model: its kernel, and the numbers of the params that the kernel reads.
struct Layer {
    const Kernel& kernel;
    std::vector<double> numbers;
    Keeper keeper;
};

// Return the text of an attribute.
std::string text_of(const void* info, const Kernel& kernel, const char* name) {
    std::size_t size = 0;
    char* none = nullptr;
    if (Status bad = call(kText, info, name, none, &size)) {
        release(bad);
        throw std::runtime_error(std::string("operator ") + kernel.name + " has no parameter " + name +
                                 ", a string; there is code for " + kernel.about);
    }
    std::string text(size, ' ');
    if (Status bad = call(kText, info, name, &text[0], &size)) {
        release(bad);
        throw std::runtime_error(std::string("parameter ") + name + " cannot be read");
    }
    return text.substr(0, size - 1);
}

Status computed(const Layer& layer, void* context) {
    const Kernel& kernel = layer.kernel;
    Shapes shapes(kernel.inputs.size());
    std::vector<const void*> from(kernel.inputs.size());
    std::vector<void*> to(kernel.outputs.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
        void* value = nullptr;
        void* data = nullptr;
        if (Status bad = call(kInput, static_cast<const void*>(context), i, &value)) return bad;
        if (Status bad = shape_of(value, shapes[i])) return bad;
        if (Status bad = call(kMutableData, value, &data)) return bad;
        from[i] = data;
    }
    const Shapes outputs = checked_shapes(kernel, shapes);
    for (std::size_t i = 0; i < to.size(); ++i) {
        void* value = nullptr;
        if (Status bad = call(kOutput, context, i, outputs[i].data(), outputs[i].size(), &value)) return bad;
        if (Status bad = call(kMutableData, value, &to[i])) return bad;
    }
    checked_run(kernel, shapes, from.data(), to.data(), layer.numbers.data(), Parallel{context});
    return nullptr;
}

struct LayerOperator : Operator {
    const Kernel* kernel;

    static const Kernel& of(const Operator* self) { return *static_cast<const LayerOperator*>(self)->kernel; }

    explicit LayerOperator(const Kernel& given) : kernel(&given) {
        name = [](const Operator* self) { return of(self).name; };
        inputs = [](const Operator* self) { return of(self).inputs.size(); };
        outputs = [](const Operator* self) { return of(self).outputs.size(); };
        input_type = [](const Operator* self, std::size_t i) { return of(self).inputs[i]; };
        output_type = [](const Operator* self, std::size_t i) { return of(self).outputs[i]; };
        create2 = [](const Operator* self, Table, const void* info, void** made) -> Status {
            try {
                std::unique_ptr<Layer> layer(new Layer{of(self), {}, {}});
                std::vector<std::string> texts;
                for (const Param& param : layer->kernel.params)
                    texts.push_back(text_of(info, layer->kernel, param.name));
                layer->numbers = checked_numbers(layer->kernel, texts);
                *made = layer.release();
                return nullptr;
            } catch (const std::exception& thrown) {
                return error(thrown.what());
            }
        };
        destroy = [](void* made) { delete static_cast<Layer*>(made); };
        compute2 = [](void* made, void* context) -> Status {
            try {
                return computed(*static_cast<const Layer*>(made), context);
            } catch (const std::exception& thrown) {
                return error(thrown.what());
            }
        };
    }
};

}  // namespace

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

extern "C" EXPORT void* RegisterCustomOps(void* options, const void* base) {
    static const std::vector<LayerOperator> operators(std::begin(kernels), std::end(kernels));
    std::vector<const Operator*> pointers;
    for (const LayerOperator& one : operators) pointers.push_back(&one);
    return add(options, static_cast<const Base*>(base), "layers", pointers.data(), pointers.size());
}
