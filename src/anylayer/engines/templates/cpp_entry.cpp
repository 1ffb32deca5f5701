extern "C" __attribute__((visibility("default"))) int anylayer_run(void* const* p, int threads) {
    try {
        return INSERT_call ? 0 : 1;
    } catch (...) {
        return 2;
    }
}
extern "C" __attribute__((visibility("default"))) std::size_t anylayer_keep(int change) {
    kept_blocks.change_keepers(change);
    return kept_blocks.kept;
}
