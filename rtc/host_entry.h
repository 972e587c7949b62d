// The entries of a host-compiled kernel (host_kernel_abi.h). This text follows signature_traits.h.
namespace rondo_host {

template <class T>
inline __attribute__((always_inline)) T load(const unsigned char* from) {
  struct {
    unsigned char bytes[sizeof(T)];
  } raw;
  __builtin_memcpy(&raw, from, sizeof raw);
  return __builtin_bit_cast(T, raw);
}

// As a C struct of these parameters has them.
template <class... P>
constexpr rondo_host_layout layout_of(rondo_signature::list<P...>) {
  rondo_host_layout layout{};
  unsigned end = 0;
  const auto add = [&](unsigned size, unsigned alignment) {
    if (layout.count == 64) return;
    const unsigned offset = (end + alignment - 1) / alignment * alignment;
    layout.parameters[layout.count].offset = offset;
    layout.parameters[layout.count++].size = size;
    end = offset + size;
  };
  (add(sizeof(P), alignof(P)), ...);
  return layout;
}

template <auto kernel, class Parameters, class Indices>
struct runner;

template <auto kernel, class... P, unsigned... i>
struct runner<kernel, rondo_signature::list<P...>, std::integer_sequence<unsigned, i...>> {
  static constexpr rondo_host_layout layout = layout_of(rondo_signature::list<P...>{});

  // The block's dimensions are known here, and the kernel is inlined: its loops over threads become plain loops.
  static __attribute__((flatten)) void run_single(const unsigned char* arguments) {
    rondo_host_thread_count = 1;
    threadIdx.x = 0, threadIdx.y = 0, threadIdx.z = 0;
    blockDim.x = 1, blockDim.y = 1, blockDim.z = 1;
    (void)arguments;
    kernel(load<P>(arguments + layout.parameters[i].offset)...);
  }

  static void run_many(rondo_host_block* block, P... values) {
    while (block->next_thread < block->thread_count) {
      const unsigned thread = block->next_thread++;
      unsigned x = thread, y = 0, z = 0;
      if (x >= block->block_dim.x) {
        y = x / block->block_dim.x;
        x -= y * block->block_dim.x;
        z = y / block->block_dim.y;
        y -= z * block->block_dim.y;
      }
      threadIdx.x = x, threadIdx.y = y, threadIdx.z = z;
      block->thread_idx = {x, y, z};
      kernel(values...);
    }
  }

  static inline __attribute__((always_inline)) void run(rondo_host_block* block, const unsigned char* arguments) {
    rondo_host_enter_block(block);
    if (block->thread_count == 1) {
      if (block->next_thread != 0) return;
      block->next_thread = 1;
      block->thread_idx = {0, 0, 0};
      run_single(arguments);
    } else {
      run_many(block, load<P>(arguments + layout.parameters[i].offset)...);
    }
  }
};

template <class... P>
constexpr std::make_integer_sequence<unsigned, sizeof...(P)> indices_of(rondo_signature::list<P...>) {
  return {};
}

}  // namespace rondo_host
