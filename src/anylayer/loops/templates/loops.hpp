// Runs the iterations of a loop on one thread. A caller may pass an object of its own that divides them among
// threads. `work` is the approximate number of elements that all iterations compute.
struct Sequential {
    template <class Body>
    void operator()(int64_t count, int64_t /* work */, const Body& body) const { body(int64_t(0), count); }
};

// The body of a loop, which calls a copy of itself. Threads call it through a pointer. Only the variables of a
// local copy can stay in registers, because no other pointer leads to them.
template <class Body> struct Copied {
    Body body;

    void operator()(int64_t begin, int64_t end) const {
        const Body own(body);
        own(begin, end);
    }
};
template <class Body> inline Copied<Body> copied(const Body& body) { return Copied<Body>{body}; }

// Runs the iterations of a loop, which are independent of each other. It ends with `width` iterations, some of which
// have run before, so that vector instructions compute all of them.
template <int64_t width, class Body> inline void in_vectors(int64_t count, const Body& body) {
    for (int64_t begin = 0, end = count / width * width; begin < count;) {
        INDEPENDENT
        for (int64_t i = begin; i < end; ++i) body(i);
        begin = end < count ? count - width : count;
        end = count;
    }
}
