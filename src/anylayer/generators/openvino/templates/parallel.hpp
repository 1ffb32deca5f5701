namespace {

// Divides the iterations of a loop among OpenVINO's threads, where there is enough to do.
struct Parallel {
    template <class Body>
    void operator()(int64_t count, int64_t work, const Body& body) const {
        if (count < 2 || work < 20000) {
            body(int64_t(0), count);
            return;
        }
        ov::parallel_nt(0, [&](const int part, const int parts) {
            const int64_t begin = count * part / parts, end = count * (part + 1) / parts;
            if (begin < end) body(begin, end);
        });
    }
};

}  // namespace
