
namespace {

ov::element::Type type_of(int number) { return number == 1 ? ov::element::f32 : ov::element::i32; }

// The operation of kernels[at]. Its attributes are params: those that the code reads, and those that it is for. A
// model with others is refused.
template <std::size_t at>
class Layer : public ov::op::Op {
public:
    static const ov::DiscreteTypeInfo& get_type_info_static() {
        static const ov::DiscreteTypeInfo info = [] {
            ov::DiscreteTypeInfo made{kernels[at].name, "extension", &ov::op::Op::get_type_info_static()};
            made.hash();
            return made;
        }();
        return info;
    }
    const ov::DiscreteTypeInfo& get_type_info() const override { return get_type_info_static(); }

    Layer() = default;
    explicit Layer(const ov::OutputVector& inputs) : Op(inputs) { constructor_validate_and_infer_types(); }

    void validate_and_infer_types() override {
        const Kernel& kernel = kernels[at];
        if (!given_.empty()) numbers_ = checked_numbers(kernel, given_);
        OPENVINO_ASSERT(get_input_size() == kernel.inputs.size(), kernel.name, " has ", get_input_size(),
                        " inputs");
        set_output_size(kernel.outputs.size());
        Shapes inputs;
        for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
            OPENVINO_ASSERT(get_input_element_type(i) == type_of(kernel.inputs[i]), kernel.name, ": input ", i,
                            " is ", get_input_element_type(i));
            if (get_input_partial_shape(i).is_static()) {
                const ov::Shape& shape = get_input_shape(i);
                inputs.emplace_back(shape.begin(), shape.end());
            }
        }
        const bool known = inputs.size() == kernel.inputs.size();
        const Shapes outputs = known ? checked_shapes(kernel, inputs) : Shapes();
        for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
            const auto shape = known ? ov::PartialShape(ov::Shape(outputs[i].begin(), outputs[i].end()))
                                     : ov::PartialShape::dynamic();
            set_output_type(i, type_of(kernel.outputs[i]), shape);
        }
    }

    std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
        const auto made = std::make_shared<Layer>(inputs);
        made->given_ = given_;
        made->numbers_ = numbers_;
        return made;
    }

    bool visit_attributes(ov::AttributeVisitor& visitor) override {
        const auto& params = kernels[at].params;
        if (given_.empty()) {
            for (const Param& param : params) given_.push_back(param.text);
        }
        for (std::size_t i = 0; i < params.size(); ++i) visitor.on_attribute(params[i].name, given_[i]);
        return true;
    }

    bool has_evaluate() const override { return true; }

    bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
        const Kernel& kernel = kernels[at];
        Shapes shapes;
        std::vector<const void*> from;
        for (const ov::Tensor& input : inputs) {
            const ov::Shape shape = input.get_shape();
            shapes.emplace_back(shape.begin(), shape.end());
            from.push_back(input.data());
        }
        const Shapes made = checked_shapes(kernel, shapes);
        std::vector<void*> to;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            outputs[i].set_shape(ov::Shape(made[i].begin(), made[i].end()));
            to.push_back(outputs[i].data());
        }
        checked_run(kernel, shapes, from.data(), to.data(), numbers_.data(), Parallel());
        return true;
    }

private:
    std::vector<std::string> given_;
    std::vector<double> numbers_;
    Keeper keeper_;
};

template <std::size_t... at>
std::vector<ov::Extension::Ptr> extensions(std::index_sequence<at...>) {
    return {std::make_shared<ov::OpExtension<Layer<at>>>()...};
}

}  // namespace

OPENVINO_CREATE_EXTENSIONS(extensions(std::make_index_sequence<std::size(kernels)>()));
