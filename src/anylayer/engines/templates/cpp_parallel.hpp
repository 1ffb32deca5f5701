namespace {

// Waits until a condition holds, but at most 100 us: it takes 30 us or more to wake a thread that sleeps.
template <class Condition> void wait_briefly(const Condition& holds) {
    const auto stop = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (!holds() && std::chrono::steady_clock::now() < stop) std::this_thread::yield();
}

// Threads that run iterations of loops together with the caller. They are never joined: the library stays loaded.
class Pool {
public:
    explicit Pool(int helpers) {
        for (int i = 0; i < helpers; ++i) std::thread([this] { serve(); }).detach();
    }

    // Returns the pool for a number of threads, or a null pointer where it is busy, or belongs to the process from
    // which this one was forked. `turn` holds it.
    static Pool* taken(int threads, std::unique_lock<std::mutex>& turn) {
        static std::mutex lock;
        static std::map<int, Pool*> pools;
        std::unique_lock<std::mutex> hold(lock, std::try_to_lock);
        if (!hold) return nullptr;
        Pool*& pool = pools[threads];
        if (!pool) pool = new Pool(threads - 1);
        if (pool->process_ != getpid()) return nullptr;
        turn = std::unique_lock<std::mutex>(pool->turn_, std::try_to_lock);
        return turn ? pool : nullptr;
    }

    void run(int64_t parts, void (*part)(const void*, int64_t), const void* context) {
        {
            std::lock_guard<std::mutex> hold(lock_);
            part_ = part;
            context_ = context;
            parts_ = parts;
            next_ = 0;
            open_ = true;
            ++round_;
        }
        wake_.notify_all();
        work();
        std::unique_lock<std::mutex> hold(lock_);
        open_ = false;
        hold.unlock();
        wait_briefly([this] { return active_ == 0; });
        hold.lock();
        idle_.wait(hold, [this] { return active_ == 0; });
    }

private:
    void work() {
        for (int64_t i = next_++; i < parts_; i = next_++) part_(context_, i);
    }

    void serve() {
        int64_t seen = 0;
        std::unique_lock<std::mutex> hold(lock_);
        for (;;) {
            wake_.wait(hold, [&] { return open_ && round_ != seen; });
            seen = round_;
            ++active_;
            hold.unlock();
            work();
            hold.lock();
            if (--active_ == 0) idle_.notify_one();
            hold.unlock();
            wait_briefly([&] { return round_ != seen; });
            hold.lock();
        }
    }

    const pid_t process_ = getpid();
    std::mutex turn_, lock_;
    std::condition_variable wake_, idle_;
    std::atomic<int64_t> next_{0}, round_{0};
    std::atomic<int> active_{0};
    void (*part_)(const void*, int64_t) = nullptr;
    const void* context_ = nullptr;
    int64_t parts_ = 0;
    bool open_ = false;
};

struct Parallel {
    int threads;

    template <class Body>
    void operator()(int64_t count, int64_t work, const Body& body) const {
        std::unique_lock<std::mutex> turn;
        Pool* pool = threads > 1 && count > 1 && work >= 40000 ? Pool::taken(threads, turn) : nullptr;
        if (!pool) {
            body(int64_t(0), count);
            return;
        }
        struct Loop {
            const Body& body;
            int64_t count, parts;
        } loop{body, count, std::min<int64_t>(count, std::min<int64_t>(work / 20000, 4 * threads))};
        pool->run(loop.parts, [](const void* context, int64_t i) {
            const Loop& self = *static_cast<const Loop*>(context);
            self.body(self.count * i / self.parts, self.count * (i + 1) / self.parts);
        }, &loop);
    }
};

}  // namespace
