// SPDX-License-Identifier: Apache-2.0
// The state of the fake runtime: streams of pending work, memory, faults. One lock guards all of
// it; a Call holds it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>

#include "fake_runtime.hpp"

namespace fake_cuda {

struct Stream;

/// Says whether a piece of work is done.
struct Ticket {
  Stream* stream;
  bool done = false;
};
using TicketPtr = std::shared_ptr<Ticket>;

struct HostRange {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

struct Work {
  std::function<void()> run;
  std::vector<TicketPtr> after;
  TicketPtr ticket;
  HostRange host;  ///< what the work reads or writes on the host
};

struct Stream {
  int device;
  bool blocking;  ///< waits for the null stream, and the null stream for it
  std::deque<Work> queue;
  TicketPtr last;
  bool capturing = false;
};

struct Event {
  int device;
  TicketPtr recorded;
};

struct Pool {
  int device;
  std::uint64_t keeps = 0;
};

/// An allocation on pages of its own. The data lie at the end, between fences.
struct Block {
  int device;
  Pool* pool;  ///< null for cudaMalloc
  std::byte* pages;
  std::size_t page_bytes, reserved_bytes;
  std::byte* data;
  std::size_t capacity, bytes;
  std::size_t asked_for;  ///< bytes, set as soon as the call returns
  bool taken = true;      ///< allocated, as the host sees it
  bool alive = false;     ///< allocated, as the device sees it in the order of its streams
  bool open = false;
  bool listed = false;           ///< in State::opened
  Block* next_opened = nullptr;  ///< behind it there
  TicketPtr freed;               ///< by the last cudaFreeAsync
};

struct Device {
  DeviceSpec spec;
  std::unique_ptr<Stream> null_stream;
  std::size_t used = 0;
};

struct Fault {
  std::function<bool(std::string_view)> which;
  std::uint64_t left, times;
  cudaError_t error;
  bool sticky;
};

struct State {
  std::mutex mutex;
  std::vector<Device> devices;
  cudaError_t without_devices = cudaErrorNoDevice;
  std::set<Stream*> streams;  ///< without null streams
  std::set<Event*> events;
  std::set<Pool*> pools;
  std::map<const std::byte*, std::unique_ptr<Block>> blocks;  ///< by data
  std::map<const std::byte*, std::size_t> pinned;
  int open_device = -1;     ///< its work runs; −1: none
  Block* opened = nullptr;  ///< by that work: a list, as a signal handler may not allocate
  Schedule schedule = Schedule::late;
  std::mt19937_64 random;
  std::optional<Fault> fault;
  bool failed = false;
  cudaError_t sticky = cudaSuccess;
  std::map<std::string, std::uint64_t, std::less<>> calls;
  std::vector<std::string> problems;

  bool coin(unsigned one_in) { return random() % one_in == 0; }
  void problem(std::string text) { problems.push_back(std::move(text)); }
};
State& state();

int& current_device();
/// Notes the last error of this thread and returns it.
cudaError_t failed_with(cudaError_t error);

/// One call of the runtime: holds the lock, injects faults, lets the device work meanwhile.
class Call {
 public:
  explicit Call(const char* name, bool even_without_devices = false);
  /// If this is an error, the call must return it at once; but a free frees first.
  cudaError_t error() const { return error_; }

 private:
  std::unique_lock<std::mutex> lock_;
  cudaError_t error_ = cudaSuccess;
};

// ---- streams; under the lock --------------------------------------------------------------------

/// A null handle means the null stream of the current device. Returns null if there is no such
/// stream.
Stream* stream_of(cudaStream_t handle);
TicketPtr enqueue(Stream& stream, std::function<void()> run, HostRange host = {},
                  std::vector<TicketPtr> after = {});
/// Lets the device work until the ticket is done.
void complete(const TicketPtr& ticket);
void complete_device(int device);

// ---- memory; under the lock ---------------------------------------------------------------------

/// From now on the host can access the memory of this device only; −1: of none. Whatever else it
/// accesses ends the process.
void open_memory(int device);
Block* block_of(const void* data);
/// Whether pending work reads or writes this host memory.
bool is_in_use(HostRange host);

}  // namespace fake_cuda
