namespace {

// Divides the iterations of a loop among the threads of the session, where there is enough to do.
struct Parallel {
    const void* context;

    template <class Body>
    void operator()(int64_t count, int64_t work, const Body& body) const {
        if (count < 2 || work < 20000) {
            body(int64_t(0), count);
            return;
        }
        struct Loop {
            const Body& body;
            int64_t count, parts;
        } loop{body, count, std::min<int64_t>(count, std::min<int64_t>(work / 10000 + 1, 64))};
        void (*part)(void*, std::size_t) = [](void* given, std::size_t i) {
            const Loop& self = *static_cast<Loop*>(given);
            const int64_t at = int64_t(i);
            self.body(self.count * at / self.parts, self.count * (at + 1) / self.parts);
        };
        const std::size_t parts = std::size_t(loop.parts);
        if (onnxruntime_api::call(onnxruntime_api::kParallelFor, context, part, parts, std::size_t(0),
                                  static_cast<void*>(&loop))) {
            body(int64_t(0), count);
        }
    }
};

}  // namespace
