// SPDX-License-Identifier: Apache-2.0
// Memory of the fake runtime: allocations, pools, copies.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fake_state.hpp"

namespace fake_cuda {

namespace {

constexpr std::size_t kAlignment = 256;  // what CUDA promises
constexpr int kNew = 0xCC, kGone = 0xDD, kFence = 0xFE;

void protect(Block& block, bool open) {
  if (block.open == open) return;
  if (::mprotect(block.pages, block.page_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
    std::abort();
  }
  block.open = open;
}

template <class Access>
void with_open(Block& block, Access access) {
  const bool was_open = block.open;
  protect(block, true);
  access();
  protect(block, was_open);
}

Block& new_block(int device, Pool* pool, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto block = std::make_unique<Block>();
  block->device = device;
  block->pool = pool;
  block->bytes = block->asked_for = bytes;
  block->capacity = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  block->page_bytes = (block->capacity + page - 1) / page * page;
  block->reserved_bytes = block->page_bytes + 2 * page;
  void* memory = ::mmap(nullptr, block->reserved_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  block->pages = static_cast<std::byte*>(memory) + page;
  block->data = block->pages + block->page_bytes - block->capacity;
  state().devices[static_cast<std::size_t>(device)].used += block->capacity;
  Block& made = *block;
  state().blocks[made.data] = std::move(block);
  return made;
}

/// The rest of the block's pages is fence.
void come_alive(Block& block) {
  with_open(block, [&] {
    std::memset(block.pages, kFence, block.page_bytes);
    std::memset(block.data, kNew, block.bytes);
  });
  block.alive = true;
}

void check_fences(Block& block) {
  with_open(block, [&] {
    const auto is_fence = [](std::byte b) { return b == std::byte{kFence}; };
    if (!std::all_of(block.pages, block.data, is_fence) ||
        !std::all_of(block.data + block.bytes, block.pages + block.page_bytes, is_fence)) {
      state().problem("the device wrote outside its memory");
    }
  });
}

void die(Block& block) {
  check_fences(block);
  with_open(block, [&] { std::memset(block.data, kGone, block.bytes); });
  block.alive = false;
  protect(block, false);
}

void unmap(Block& block) {
  for (Block** opened = &state().opened; *opened != nullptr; opened = &(*opened)->next_opened) {
    if (*opened != &block) continue;
    *opened = block.next_opened;
    break;
  }
  state().devices[static_cast<std::size_t>(block.device)].used -= block.capacity;
  ::munmap(block.pages - (block.reserved_bytes - block.page_bytes) / 2, block.reserved_bytes);
  state().blocks.erase(block.data);
}

bool has_room(int device, std::size_t bytes) {
  const Device& d = state().devices[static_cast<std::size_t>(device)];
  return bytes <= d.spec.memory_bytes && d.used <= d.spec.memory_bytes - bytes;
}

bool is_unused(const Block& block) {
  return !block.taken && block.freed != nullptr && block.freed->done;
}

/// Gives unused blocks back until at most `keep` bytes of them are left.
void trim(Pool* pool, std::size_t keep) {
  std::vector<Block*> unused;
  std::size_t bytes = 0;
  for (const auto& [data, block] : state().blocks) {
    if (block->pool != pool || !is_unused(*block)) continue;
    unused.push_back(block.get());
    bytes += block->capacity;
  }
  for (Block* block : unused) {
    if (bytes <= keep) break;
    bytes -= block->capacity;
    unmap(*block);
  }
}

/// A block of the pool that will be free in the order of `stream`; null if there is none.
Block* reusable(Pool* pool, std::size_t bytes, const Stream& stream) {
  State& s = state();
  if (s.schedule == Schedule::random && s.coin(16)) return nullptr;
  for (const auto& [data, block] : s.blocks) {
    if (block->pool != pool || block->taken || block->capacity < bytes) continue;
    if (block->capacity > 2 * bytes + kAlignment) continue;
    if (is_unused(*block) || block->freed->stream == &stream) return block.get();
  }
  return nullptr;
}

/// Whether this is device memory, as far as the host knows. Checked again when the work runs.
bool is_device(const void* data, std::size_t bytes) {
  const Block* block = block_of(data);
  if (block == nullptr) return false;
  const auto* first = static_cast<const std::byte*>(data);
  return block->taken && bytes <= static_cast<std::size_t>(block->data + block->asked_for - first);
}
bool must_be_alive(const void* data, const char* what) {
  const Block* block = block_of(data);
  if (block == nullptr || !block->alive) {
    state().problem(std::string(what) + " of device memory before or after its time");
    return false;
  }
  return true;
}

enum class Host { pageable, pinned, mixed };
Host kind_of(const void* data, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  for (const auto& [from, size] : state().pinned) {
    if (first + bytes <= from || from + size <= first) continue;
    return first >= from && first + bytes <= from + size ? Host::pinned : Host::mixed;
  }
  return Host::pageable;
}

cudaError_t refused(const char* why) {
  state().problem(why);
  return failed_with(cudaErrorInvalidValue);
}

/// Copies in the order of a stream. Returns at once wherever CUDA may.
cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, Stream& stream,
                 bool synchronous) {
  if (bytes == 0) return cudaSuccess;
  const bool reads_device = kind != cudaMemcpyHostToDevice;
  const bool writes_device = kind != cudaMemcpyDeviceToHost;
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost &&
      kind != cudaMemcpyDeviceToDevice) {
    return refused("a copy of a kind that is not known here");
  }
  if ((reads_device && !is_device(from, bytes)) || (writes_device && !is_device(to, bytes))) {
    return refused("a copy that is not within one piece of device memory");
  }
  if (block_of(reads_device ? from : to)->device != stream.device) {
    state().problem("a copy on a stream of another device");
  }
  const auto work = [=](const void* source) {
    if (reads_device && !must_be_alive(from, "a copy")) return;
    if (writes_device && !must_be_alive(to, "a copy")) return;
    std::memcpy(to, source, bytes);
  };
  if (kind == cudaMemcpyDeviceToDevice) {
    enqueue(stream, [=] { work(from); });  // not even cudaMemcpy waits
    return cudaSuccess;
  }
  const void* host = writes_device ? from : to;
  const Host memory = kind_of(host, bytes);
  if (memory == Host::mixed) return refused("a copy of memory that is pinned in part");
  if (memory == Host::pinned) {
    const HostRange range{static_cast<const std::byte*>(host), bytes};
    const TicketPtr done = enqueue(
        stream, [=] { work(from); }, range);
    if (synchronous) complete(done);
    return cudaSuccess;
  }
  if (kind == cudaMemcpyDeviceToHost) {
    complete(enqueue(stream, [=] { work(from); }));
    return cudaSuccess;
  }
  // Pageable memory is read before the call returns, but may arrive later.
  if (synchronous) complete(enqueue(stream, nullptr));
  auto read = std::make_shared<std::vector<std::byte>>(bytes);
  std::memcpy(read->data(), from, bytes);
  enqueue(stream, [=] { work(read->data()); });
  return cudaSuccess;
}

cudaError_t set(void* to, int value, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return cudaSuccess;
  if (!is_device(to, bytes)) return refused("memset of what is not within device memory");
  if (block_of(to)->device != stream.device) state().problem("memset on another device's stream");
  enqueue(stream, [=] {
    if (!must_be_alive(to, "memset")) return;
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

cudaError_t on_stream(cudaStream_t handle, const std::function<cudaError_t(Stream&)>& use) {
  Stream* stream = stream_of(handle);
  return stream == nullptr ? failed_with(cudaErrorInvalidResourceHandle) : use(*stream);
}

}  // namespace

Block* block_of(const void* data) {
  const auto* at = static_cast<const std::byte*>(data);
  auto next = state().blocks.upper_bound(at);
  if (next == state().blocks.begin()) return nullptr;
  Block* block = std::prev(next)->second.get();
  return at < block->data + block->capacity ? block : nullptr;
}

namespace {

struct sigaction handled_before;  ///< SIGSEGV

/// Opens a block when the device touches it first. (Opening all of a device's blocks for each piece
/// of work took most of the tests' time.)
void open_touched(int, siginfo_t* fault, void*) {
  State& s = state();
  Block* block = s.open_device < 0 ? nullptr : block_of(fault->si_addr);
  if (block != nullptr && block->alive && block->device == s.open_device && !block->open) {
    protect(*block, true);
    if (block->listed) return;  // it died and came alive again
    block->listed = true;
    block->next_opened = s.opened;
    s.opened = block;
  } else {
    ::sigaction(SIGSEGV, &handled_before, nullptr);  // the access is wrong and faults again
  }
}

}  // namespace

void open_memory(int device) {
  static const bool handled [[maybe_unused]] = [] {
    struct sigaction action = {};
    action.sa_sigaction = open_touched;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return ::sigaction(SIGSEGV, &action, &handled_before) == 0;
  }();
  State& s = state();
  if (s.open_device == device) return;
  for (Block* block = s.opened; block != nullptr; block = block->next_opened) {
    protect(*block, false);
    block->listed = false;
  }
  s.opened = nullptr;
  s.open_device = device;
}

Alive alive() {
  const State& s = state();
  const std::scoped_lock lock(state().mutex);
  Alive all;
  for (const auto& [data, block] : s.blocks) {
    if (block->taken) ++(block->pool == nullptr ? all.device_blocks : all.pool_blocks);
  }
  all.pinned_blocks = s.pinned.size();
  all.streams = s.streams.size();
  all.events = s.events.size();
  return all;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const Call call("cudaMalloc");
  if (call.error() != cudaSuccess) return call.error();
  if (!has_room(current_device(), bytes)) return failed_with(cudaErrorMemoryAllocation);
  Block& block = new_block(current_device(), nullptr, bytes);
  come_alive(block);
  *data = block.data;
  return cudaSuccess;
}

cudaError_t cudaFree(void* data) {
  const Call call("cudaFree");
  if (data == nullptr) return call.error();
  Block* block = block_of(data);
  if (block == nullptr || block->data != data || block->pool != nullptr) {
    return refused("cudaFree of what cudaMalloc did not give");
  }
  if (state().sticky == cudaSuccess) complete_device(block->device);
  die(*block);
  unmap(*block);
  return call.error();
}

cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  const Call call("cudaMallocHost");
  if (call.error() != cudaSuccess) return call.error();
  *data = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  std::memset(*data, kNew, bytes);
  state().pinned[static_cast<std::byte*>(*data)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  const Call call("cudaFreeHost");
  if (data == nullptr) return call.error();
  const auto found = state().pinned.find(static_cast<std::byte*>(data));
  if (found == state().pinned.end()) {
    return refused("cudaFreeHost of what cudaMallocHost did not give");
  }
  if (state().sticky == cudaSuccess && is_in_use({found->first, found->second})) {
    state().problem("pinned memory is freed while the device copies it");
    for (std::size_t d = 0; d < state().devices.size(); ++d) complete_device(static_cast<int>(d));
  }
  std::free(data);
  state().pinned.erase(found);
  return call.error();
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Call call("cudaMemGetInfo");
  if (call.error() != cudaSuccess) return call.error();
  const Device& device = state().devices[static_cast<std::size_t>(current_device())];
  *total = device.spec.memory_bytes;
  *free = *total - std::min(*total, device.used);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  const Call call("cudaPointerGetAttributes");
  if (call.error() != cudaSuccess) return call.error();
  *attributes = {};
  attributes->type = block_of(data) != nullptr          ? cudaMemoryTypeDevice
                     : kind_of(data, 1) == Host::pinned ? cudaMemoryTypeHost
                                                        : cudaMemoryTypeUnregistered;
  if (const Block* block = block_of(data)) attributes->device = block->device;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Call call("cudaMemcpy");
  if (call.error() != cudaSuccess) return call.error();
  return on_stream(nullptr, [&](Stream& s) { return copy(to, from, bytes, kind, s, true); });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const Call call("cudaMemcpyAsync");
  if (call.error() != cudaSuccess) return call.error();
  return on_stream(stream, [&](Stream& s) { return copy(to, from, bytes, kind, s, false); });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  const Call call("cudaMemset");
  if (call.error() != cudaSuccess) return call.error();
  return on_stream(nullptr, [&](Stream& s) { return set(to, value, bytes, s); });
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Call call("cudaMemsetAsync");
  if (call.error() != cudaSuccess) return call.error();
  return on_stream(stream, [&](Stream& s) { return set(to, value, bytes, s); });
}

// ---- pools --------------------------------------------------------------------------------------

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  const Call call("cudaMemPoolCreate");
  if (call.error() != cudaSuccess) return call.error();
  auto* made = new Pool{properties->location.id};
  state().pools.insert(made);
  *pool = reinterpret_cast<cudaMemPool_t>(made);
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  const Call call("cudaMemPoolDestroy");
  auto* gone = reinterpret_cast<Pool*>(pool);
  if (state().pools.erase(gone) == 0) return refused("not a pool");
  trim(gone, 0);
  delete gone;
  return call.error();
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  const Call call("cudaMemPoolSetAttribute");
  if (call.error() != cudaSuccess) return call.error();
  auto* of = reinterpret_cast<Pool*>(pool);
  if (!state().pools.contains(of) || attribute != cudaMemPoolAttrReleaseThreshold) {
    return refused("not a pool, or an attribute that is not known here");
  }
  std::memcpy(&of->keeps, value, sizeof of->keeps);
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t keep) {
  const Call call("cudaMemPoolTrimTo");
  if (call.error() != cudaSuccess) return call.error();
  auto* of = reinterpret_cast<Pool*>(pool);
  if (!state().pools.contains(of)) return refused("not a pool");
  trim(of, keep);
  return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void** data, std::size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t handle) {
  const Call call("cudaMallocFromPoolAsync");
  if (call.error() != cudaSuccess) return call.error();
  auto* of = reinterpret_cast<Pool*>(pool);
  Stream* stream = stream_of(handle);
  if (!state().pools.contains(of) || stream == nullptr) return refused("not a pool or stream");
  if (of->device != stream->device) return refused("memory of one device on another's stream");
  Block* block = reusable(of, bytes, *stream);
  if (block == nullptr) {
    if (!has_room(of->device, bytes)) trim(of, 0);
    if (!has_room(of->device, bytes)) return failed_with(cudaErrorMemoryAllocation);
    block = &new_block(of->device, of, bytes);
  }
  block->taken = true;
  block->asked_for = bytes;
  enqueue(*stream, [block, bytes] {
    block->bytes = bytes;
    come_alive(*block);
  });
  *data = block->data;
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t handle) {
  const Call call("cudaFreeAsync");
  Block* block = block_of(data);
  Stream* stream = stream_of(handle);
  if (stream == nullptr) return failed_with(cudaErrorInvalidResourceHandle);
  if (block == nullptr || block->data != data || block->pool == nullptr || !block->taken) {
    return refused("cudaFreeAsync of what is not from a pool, or was freed before");
  }
  block->taken = false;
  block->freed = enqueue(*stream, [block] { die(*block); });
  return call.error();
}

}  // extern "C"
