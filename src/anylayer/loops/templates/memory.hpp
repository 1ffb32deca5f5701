// The memory of an array that only a function uses.
template <class T> class Memory {
public:
    explicit Memory(int64_t count) : data_(new T[std::size_t(count)]) {}
    T& operator[](int64_t i) const { return data_[i]; }

private:
    std::unique_ptr<T[]> data_;
};
