// Blocks of memory that calls have used, for later calls: a new block costs a page fault per 4 KiB, which can
// take longer than the loops. At most 64 blocks with 256 MiB are kept, none of them smaller than 64 KiB. No thread
// waits for another one: each passes over a slot that another one is changing. A process that is forked meanwhile
// loses only this slot. It has no destructor, so calls may outlast the end of the program's main function.
const std::size_t SMALLEST_KEPT = std::size_t(64) << 10, MOST_KEPT = std::size_t(256) << 20;  // bytes
struct Blocks {
    struct Slot {
        std::atomic<std::size_t> bytes{0};  // of the block; 0: there is none; 1: a thread is changing the slot
        void* block = nullptr;

        bool claim(std::size_t size) { return bytes.compare_exchange_strong(size, 1, std::memory_order_acquire); }
        void leave(std::size_t size) { bytes.store(size, std::memory_order_release); }
    };
    Slot slots[64];
    std::atomic<std::size_t> kept{0};  // bytes of all blocks
    std::atomic<int> keepers{0};

    // Returns a block of at least `bytes`, and stores its size there.
    void* take(std::size_t& bytes) {
        if (bytes >= SMALLEST_KEPT) {
            for (Slot& slot : slots) {
                const std::size_t size = slot.bytes.load(std::memory_order_relaxed);
                if (size < bytes || size / 2 > bytes || !slot.claim(size)) continue;
                void* const block = slot.block;
                slot.leave(0);
                kept -= size;
                bytes = size;
                return block;
            }
        }
        return ::operator new(bytes);
    }

    void give_back(void* block, std::size_t bytes) {
        for (int attempt = 0; attempt < 2 && bytes >= SMALLEST_KEPT; ++attempt) {
            if ((kept += bytes) <= MOST_KEPT) {
                for (Slot& slot : slots) {
                    if (slot.bytes.load(std::memory_order_relaxed) != 0 || !slot.claim(0)) continue;
                    slot.block = block;
                    slot.leave(bytes);
                    return;
                }
            }
            kept -= bytes;
            clear();  // of blocks whose sizes are perhaps no longer used
        }
        ::operator delete(block);
    }

    void clear() {
        for (Slot& slot : slots) {
            const std::size_t size = slot.bytes.load(std::memory_order_relaxed);
            if (size <= 1 || !slot.claim(size)) continue;
            ::operator delete(slot.block);
            slot.leave(0);
            kept -= size;
        }
    }
    void change_keepers(int change) {
        if ((keepers += change) == 0) clear();
    }
};
Blocks kept_blocks;

// A member of each object that runs loops. The blocks are freed with the last one, before the library is unloaded.
struct Keeper {
    Keeper() { kept_blocks.change_keepers(1); }
    Keeper(const Keeper&) { kept_blocks.change_keepers(1); }
    ~Keeper() { kept_blocks.change_keepers(-1); }
};

// The memory of an array that only a function uses.
template <class T> class Memory {
public:
    explicit Memory(int64_t count) : bytes_(std::size_t(count) * sizeof(T)) {
        if (std::size_t(count) > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
        data_ = static_cast<T*>(kept_blocks.take(bytes_));
    }
    ~Memory() { kept_blocks.give_back(data_, bytes_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    T& operator[](int64_t i) const { return data_[i]; }

private:
    std::size_t bytes_;
    T* data_;
};
