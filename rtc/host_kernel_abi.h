// What a host-compiled kernel and the host driver agree on. This text is compiled into the library and, word for word, into every
// host-compiled kernel: plain C++ without includes.
#pragma once

struct rondo_host_dim3 {
  unsigned x, y, z;
};

// One block that is being run by one thread of the host driver's pool. The driver fills it in and hands it to the entry; the
// kernel's threadIdx, blockIdx, blockDim and gridDim read it.
struct rondo_host_block {
  rondo_host_dim3 thread_idx, block_idx, block_dim, grid_dim;
  unsigned next_thread;   // the first thread of the block that has not been started
  unsigned thread_count;  // block_dim.x * y * z
  void* dynamic_shared;   // aligned to 128 bytes
  // Called by __syncthreads() where thread_count > 1: returns when all threads of the block that have not returned are here. Whoever
  // resumes a thread restores thread_idx.
  void (*barrier)(rondo_host_block*);
};

// Starts threads next_thread … thread_count - 1 of the block one after another, on the caller's stack. While one of them waits in
// barrier(), the driver may call the entry again, on another stack of the same OS thread, to start those that are left.
// `arguments` is the packed buffer. Exported by a kernel's shared object as Entry::lowered.
typedef void (*rondo_host_entry)(rondo_host_block* block, const unsigned char* arguments);

// Layout of the parameters, exported beside each entry as <lowered>_layout: offset and size in the packed buffer, as a struct of
// those parameters has them.
struct rondo_host_layout {
  unsigned count;
  struct {
    unsigned offset, size;
  } parameters[64];
};
