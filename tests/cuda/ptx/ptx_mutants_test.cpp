// SPDX-License-Identifier: Apache-2.0
// Mistakes made on purpose in the PTX of the library's kernels, such as a compiler or a change
// might make: each must be noticed when the kernels run, and nothing without it.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "fake_runtime.hpp"
#include "ptx_launch.hpp"
#include "scbf/cuda/device_filter.hpp"
#include "scbf/cuda/memory.hpp"
#include "scbf/filter.hpp"
#include "support/device.hpp"
#include "support/keys.hpp"
#include "support/setups.hpp"

namespace {

using namespace scbf_test;
using scbf::Path;
using scbf::cuda::DeviceFilter;

/// Before the library looks for devices.
[[maybe_unused]] const bool kStarted = [] {
  fake_cuda::set_machine({});
  return true;
}();

/// Bytes on the device, not one more than asked for.
class Answered {
 public:
  explicit Answered(std::size_t n) : n_(n) {
    if (cudaMalloc(&data_, n) != cudaSuccess) throw std::bad_alloc();
  }
  Answered(const Answered&) = delete;
  Answered& operator=(const Answered&) = delete;
  ~Answered() { cudaFree(data_); }
  std::uint8_t* get() const { return static_cast<std::uint8_t*>(data_); }
  Answers to_host() const {
    Answers answers(n_);
    cudaMemcpy(answers.data(), data_, n_, cudaMemcpyDeviceToHost);
    return answers;
  }

 private:
  void* data_ = nullptr;
  std::size_t n_;
};

/// Inserts, looks up and removes keys on the device and in the model, and says what differs.
std::string what_differs(Path path, const scbf::Geometry& geometry) {
  scbf::Filter model(geometry, {.seed = 5, .backend = "scalar"});
  DeviceFilter filter(geometry, 5);
  const scbf::cuda::DeviceOptions options{.path = path};
  const auto differs = [&] {
    std::vector<std::uint64_t> words(geometry.words());
    filter.download(words);
    return !same_words(words, model.words());
  };

  auto keys = random_keys(1000, 1);
  keys.insert(keys.end(), 80, 42);  // saturates its counters, and crowds its blocks
  keys.insert(keys.end(), 80, 43);
  for (int i = 0; i < 30; ++i) keys.push_back(static_cast<std::uint64_t>(i % 3));
  const OnDevice<std::uint64_t> there(keys);
  filter.insert({there.get(), keys.size()}, options);
  model.insert(keys, {.threads = 1});
  if (differs()) return "counters differ after insertion\n";
  scbf::Filter counted(geometry, {.seed = 5, .backend = "cuda"});
  counted.insert(keys, {.path = path});
  if (counted.nonzero() != model.nonzero()) return "the number of filled counters differs\n";

  auto asked = keys;
  asked.erase(std::find(asked.begin(), asked.end(), 43), std::prev(asked.end(), 37));  // 7 of these
  const auto others = random_keys(500, 2);
  asked.insert(asked.begin(), others.begin(), others.end());
  for (int i = 0; i < 31; ++i) asked.push_back(static_cast<std::uint64_t>(i % 3));  // too often
  const OnDevice<std::uint64_t> asked_there(asked);
  const Answered answers(asked.size());
  filter.contains({asked_there.get(), asked.size()}, answers.get(), options);
  if (!same_answers(answers.to_host(), contains(model, asked))) return "answers differ\n";

  filter.remove({asked_there.get(), asked.size()}, answers.get(), options);
  if (!same_answers(answers.to_host(), remove(model, asked))) return "verdicts differ\n";
  if (differs()) return "counters differ after removal\n";
  counted.remove(asked, {}, {.path = path});
  return counted.nonzero() != model.nonzero() ? "the number of emptied counters differs\n" : "";
}

/// Inserts batches into a filter of layout ranked, of which some blocks spill and some are stuck.
std::string what_differs_in_ranked() {
  const auto geometry = scbf::Geometry::ranked(112, 700, 650);
  scbf::Filter model(geometry, {.seed = 5, .backend = "scalar"});
  DeviceFilter filter(geometry, 5);
  for (const std::uint64_t batch : {1, 2, 3}) {
    auto keys = random_keys(5000, batch);
    keys.insert(keys.end(), 140, 42);  // at last more often than is counted
    const OnDevice<std::uint64_t> there(keys);
    filter.insert({there.get(), keys.size()});
    model.insert(keys, {.threads = 1});
    std::vector<std::uint64_t> words(geometry.words());
    filter.download(words);
    if (!same_words(words, model.words())) return "counters differ after insertion\n";
  }
  return "";
}

/// Inserts new keys into crowded filters: they come several times, and share a block, or cells of
/// slices, with others. The numbers of keys inserted are those of the verdicts.
std::string what_differs_in_new_keys() {
  for (const auto& geometry : {scbf::Geometry::split_block(1, 40), scbf::Geometry::split(7, 300)}) {
    scbf::Filter model(geometry, {.seed = 5, .backend = "scalar"});
    scbf::Filter filter(geometry, {.seed = 5, .backend = "cuda"});
    Random random(9);
    for (int batch = 0; batch < 2; ++batch) {
      std::vector<std::uint64_t> keys(700);
      for (auto& key : keys) key = random.below(batch == 0 ? 40 : 400);
      Answers got(keys.size(), 0xCC), want(keys.size());
      filter.insert_new(keys, got);
      model.insert_new(keys, want, {.threads = 1});
      if (!same_answers(got, want)) return "verdicts differ\n";
      if (!same_words(words_of(filter), model.words())) return "counters differ\n";
      if (filter.nonzero() != model.nonzero()) return "the number of filled counters differs\n";
    }
  }
  return "";
}

/// What differs, with what the interpreter and the fake runtime noticed.
template <class WhatDiffers>
std::string noticed(std::uint64_t seed, WhatDiffers what_differs) {
  ptx::set_settings({.seed = seed, .most_instructions = 1'000'000'000});
  std::string all;
  try {
    all = what_differs();
  } catch (const std::exception& error) {
    all = std::string(error.what()) + '\n';
  }
  ptx::revive_devices();
  for (const std::string& problem : fake_cuda::take_problems()) all += problem + '\n';
  return all;
}

/// The same in a filter for these keys, and in one that they crowd, where removal finds too little
/// in some of a key's counters.
std::string noticed(Path path, std::uint64_t seed) {
  return noticed(seed, [=] { return what_differs(path, scbf::Geometry::split_block(2, 150)); }) +
         noticed(seed, [=] { return what_differs(path, scbf::Geometry::split_block(2, 12)); });
}

struct Mutant {
  std::string name;
  Path path;
  std::string kernel;    ///< a part of its name
  std::string what, by;  ///< a regular expression, and what it is replaced by
  int which;             ///< of the places that match; kEvery: all of them
  std::string says;      ///< a part of what is noticed
};
std::ostream& operator<<(std::ostream& out, const Mutant& mutant) { return out << mutant.name; }
constexpr int kEvery = -1;

/// The module with this kernel alone, changed.
std::string mutated(const Mutant& mutant) {
  const std::string& text = ptx::library_ptx();
  std::size_t begin = text.find(".entry");
  while (begin != std::string::npos &&
         text.substr(begin, text.find('(', begin) - begin).find(mutant.kernel) ==
             std::string::npos) {
    begin = text.find(".entry", begin + 1);
  }
  if (begin == std::string::npos) return "";
  const std::size_t end = text.find("\n}\n", begin) + 3;
  const std::regex what(mutant.what);
  std::string kernel;
  int at = 0;
  auto rest = text.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto stop = text.begin() + static_cast<std::ptrdiff_t>(end);
  bool changed = false;
  for (std::smatch match; std::regex_search(rest, stop, match, what);
       rest = match.suffix().first, ++at) {
    const bool here = mutant.which == kEvery || mutant.which == at;
    changed = changed || here;
    kernel += match.prefix().str() + (here ? match.format(mutant.by) : match.str());
  }
  kernel.append(rest, stop);
  return changed ? text.substr(0, text.find(".visible .entry")) + kernel : "";
}

const std::string kAddDirect = "AddDirectINS0_12CounterCellsELb0",
                  kAddToBlocks = "ILj512ENS0_11AddToBlocksINS0_12CounterCellsELb0";
const std::string kAddAndCount = "AddDirectINS0_12CounterCellsELb1",
                  kAddToBlocksAndCount = "ILj512ENS0_11AddToBlocksINS0_12CounterCellsELb1";
const std::string kTakeDirect = "TakeDirectILb0",
                  kTakeFromBlocks = "ILj512ENS0_14TakeFromBlocksILb0",
                  kTakeAndCount = "TakeDirectILb1",
                  kTakeFromBlocksAndCount = "ILj512ENS0_14TakeFromBlocksILb1",
                  kResolve = "grid_kernelINS0_7Resolve";
const std::string kLook = "LookILb0ENS0_12CounterCellsENS0_11ByteAnswers";
const std::string kSpin = R"((ld\.acquire\.gpu\.u32[^@]*)@%p\d+ bra[^;]*;)";
const std::string kBarrier = R"(bar\.sync\s+0;)";
const std::string kSwap = R"(cas\.b64\s+(%rd\d+), \[(%r\w+)\], %rd\d+, (%rd\d+);)";

const std::string kNext = R"(atom\.shared\.add\.u32\s+(%r\d+), \[(%r\w+)\], 1;)";

const std::string kFound = R"((setp\.ne\.s64\s+%p\d+, )(%rd\d+), %rd\d+;)";
const std::string kLoadCached = R"((ld\.relaxed\.cta\.global\.u64\s+%rd\d+, \[%rd\d+)\])";
const std::string kBallot = R"(vote\.sync\.ballot\.b32\s+(%r\d+), %p\d+, %r\d+;)";
const std::string kSum = R"(redux\.sync\.add\.[su]32\s+(%r\d+), (%r\d+), [^;]*;)";
const std::string kAtomicAdd = R"((atom|red)\.global\.add\.u64[^;]*;)";
const std::string kButterfly = R"(shfl\.sync\.bfly\.b32\s+(%r\d+)\|%p\d+, (%r\d+),[^;]*;)";
/// The operand of a shuffle that makes it one of four or eight lanes.
const std::string kFourLanes = R"((mov\.u32\s+%r\d+,) 7199;)";
const std::string kEightLanes = R"((mov\.u32\s+%r\d+,) 6175;)";

const std::string kTakePlaces = R"(atom\.global\.add\.u64\s+(%rd\d+), \[(%rd\d+)\], %rd\d+;)";

const std::string kOfRanked = "INS0_15PositionsOfKeysImNS0_11RankedArrayE",
                  kCountDigits = "ILj512ENS0_11CountDigits" + kOfRanked,
                  kScatterDigits = "ILj512ENS0_13ScatterDigits" + kOfRanked;
const std::string kAddToLists = "ILj512ENS0_10AddToListsILb0",
                  kPlaceEntries = "ILj512ENS0_12PlaceEntries", kMarkEntry = "MarkEntry",
                  kWriteEntries = "WriteEntries", kAddLeftOver = "AddLeftOverILb0";

const std::string kFilledDiffer = "the number of filled counters differs";
const std::string kEmptiedDiffer = "the number of emptied counters differs";

std::vector<Mutant> mutants() {
  constexpr Path direct = Path::direct, partitioned = Path::partitioned;
  return {
      {"swap_of_insertion_is_not_atomic", direct, kAddDirect, R"(atom\.global\.)" + kSwap,
       "ld.volatile.global.u64 $1, [$2]; st.volatile.global.u64 [$2], $3;", kEvery,
       "counters differ after insertion"},
      {"swap_in_shared_memory_is_not_atomic", partitioned, kAddToBlocks,
       R"(atom\.shared\.)" + kSwap,
       "ld.volatile.shared.u64 $1, [$2]; st.volatile.shared.u64 [$2], $3;", kEvery,
       "counters differ after insertion"},
      {"place_among_the_keys_of_a_block_is_not_taken", partitioned, kAddToBlocks, kNext,
       "ld.volatile.shared.u32 $1, [$2];", kEvery, "counters differ after insertion"},
      {"lanes_do_not_exchange_words", partitioned, kAddToBlocks, kButterfly, "mov.b32 $1, $2;",
       kEvery, "counters differ after insertion"},
      {"swap_of_removal_is_not_atomic", direct, kTakeDirect, R"(atom\.global\.)" + kSwap,
       "ld.volatile.global.u64 $1, [$2]; st.volatile.global.u64 [$2], $3;", kEvery, "differ"},
      {"counter_saturates_early", direct, kAddDirect, R"((setp\.ne\.s64\s+%p\d+, %rd\d+,) 15;)",
       "$1 14;", kEvery, "counters differ after insertion"},
      {"counter_saturates_late", direct, kAddDirect, R"((setp\.ne\.s64\s+%p\d+, %rd\d+,) 15;)",
       "$1 16;", kEvery, "counters differ after insertion"},
      {"saturation_is_not_seen_at_once", direct, kAddDirect,
       R"((add\.s32\s+%r\d+, %r\d+,) 16843009;)", "$1 0;", kEvery,
       "counters differ after insertion"},
      {"lost_swap_is_not_repeated", direct, kAddDirect, kFound, "$1$2, $2;", kEvery,
       "counters differ after insertion"},
      {"lost_swap_of_removal_is_not_repeated", direct, kTakeDirect, kFound, "$1$2, $2;", kEvery,
       "differ"},
      {"places_of_the_first_eight_lanes", direct, kAddDirect, kEightLanes, "$1 31;", kEvery,
       "counters differ after insertion"},
      {"places_of_four_lanes", direct, kAddDirect, kEightLanes, "$1 7199;", kEvery,
       "counters differ after insertion"},
      {"places_of_four_lanes_in_removal", direct, kTakeDirect, kEightLanes, "$1 7199;", kEvery,
       "differ"},
      {"place_of_the_wrong_lane", direct, kAddDirect,
       R"((shfl\.sync\.idx\.b32\s+%r\d+\|%p\d+, %r\d+,) %r\d+,)", "$1 5,", 1,
       "counters differ after insertion"},
      {"places_of_half_a_warp", direct, kAddDirect, R"((mov\.u32\s+%r\d+,) -1;)", "$1 65535;",
       kEvery, "a lane is not in the mask that it names"},
      {"keys_behind_the_end_are_added", direct, kAddDirect, kBallot, "mov.u32 $1, -1;", kEvery,
       "counters differ after insertion"},
      {"absent_keys_are_taken", direct, kTakeDirect, kBallot, "mov.u32 $1, -1;", 0, "differ"},
      {"saturated_counters_are_taken", direct, kTakeDirect,
       R"((add\.s32\s+%r\d+, %r\d+,) 16843009;)", "$1 0;", kEvery, "differ"},
      {"neighbours_do_not_learn_of_a_shortage", direct, kTakeDirect, kButterfly, "mov.b32 $1, $2;",
       kEvery, "differ"},
      {"what_was_taken_is_forgotten_in_the_next_group", direct, kTakeDirect,
       R"(shl\.b64(\s+%rd\d+, %rd\d+), 8;)", "shl.b64 $1, 16;", 1, "differ"},
      {"lanes_do_not_add_up_what_they_filled", direct, kAddAndCount, kSum, "mov.b32 $1, $2;",
       kEvery, kFilledDiffer},
      {"filled_counters_are_not_added_up", direct, kAddAndCount, kAtomicAdd, "", kEvery,
       kFilledDiffer},
      {"every_lane_adds_what_all_have_filled", direct, kAddAndCount,
       R"((redux[^@]*or\.pred\s+%p\d+, )%p\d+, (%p\d+);)", "$1$2, $2;", kEvery, kFilledDiffer},
      {"counters_of_one_count_as_filled", direct, kAddAndCount,
       R"((add\.s32\s+%r\d+, %r\d+,) 252645135;)", "$1 235802126;", kEvery, kFilledDiffer},
      {"lanes_do_not_add_up_what_they_filled_in_parts", partitioned, kAddToBlocksAndCount, kSum,
       "mov.b32 $1, $2;", kEvery, kFilledDiffer},
      {"filled_counters_are_not_added_up_in_parts", partitioned, kAddToBlocksAndCount, kAtomicAdd,
       "", kEvery, kFilledDiffer},
      {"lanes_do_not_add_up_what_they_emptied", direct, kTakeAndCount, kSum, "mov.b32 $1, $2;",
       kEvery, kEmptiedDiffer},
      {"emptied_counters_are_not_added_up", direct, kTakeAndCount, kAtomicAdd, "", kEvery,
       kEmptiedDiffer},
      {"counters_of_two_count_as_emptied", direct, kTakeAndCount,
       R"((add\.s32\s+%r\d+, %r\d+,) 235802126;)", "$1 218959117;", kEvery, kEmptiedDiffer},
      {"what_is_given_back_counts_as_emptied", direct, kResolve, kAtomicAdd, "", 0, kEmptiedDiffer},
      {"what_is_given_back_counts_as_emptied_in_parts", partitioned, kResolve, kAtomicAdd, "", 0,
       kEmptiedDiffer},
      {"what_is_taken_in_order_does_not_count_as_emptied", direct, kResolve, kAtomicAdd, "", 2,
       kEmptiedDiffer},
      {"lanes_do_not_add_up_what_they_emptied_in_parts", partitioned, kTakeFromBlocksAndCount, kSum,
       "mov.b32 $1, $2;", kEvery, kEmptiedDiffer},
      {"emptied_counters_are_not_added_up_in_parts", partitioned, kTakeFromBlocksAndCount,
       kAtomicAdd, "", kEvery, kEmptiedDiffer},
      {"word_is_not_aligned", direct, kAddDirect, kLoadCached, "$1+4]", kEvery,
       "an access of 8 bytes at an address that is not aligned"},
      {"word_lies_outside", direct, kAddDirect, kLoadCached, "$1+19200]", kEvery,
       "a read outside of the device's memory"},
      {"no_barrier_before_counting", partitioned, kAddToBlocks, kBarrier, "", 1, "a race: "},
      {"no_barrier_after_counting", partitioned, kAddToBlocks, kBarrier, "", 2, "a race: "},
      {"no_barrier_before_sorting", partitioned, kAddToBlocks, kBarrier, "", 3,
       "outside of the shared memory"},
      {"no_barrier_after_sorting", partitioned, kAddToBlocks, kBarrier, "", 4, "a race: "},
      {"no_barrier_in_removal", partitioned, kTakeFromBlocks, kBarrier, "", kEvery, "differ"},
      {"barrier_by_some_threads", partitioned, kAddToBlocks, kBarrier,
       "{ .reg .pred few; .reg .b32 t; mov.u32 t, %tid.x; setp.lt.u32 few, t, 40; @few bar.sync 0; "
       "}",
       1, "barrier"},
      {"mask_of_half_a_warp", direct, kLook, R"((mov\.u32\s+%r\d+,) -1;)", "$1 65535;", kEvery,
       "a lane is not in the mask that it names"},
      {"blocks_of_the_first_four_lanes", direct, kLook, kFourLanes, "$1 31;", kEvery,
       "answers differ"},
      {"answers_of_one_of_four_lanes", direct, kLook, kButterfly, "mov.b32 $1, $2;", kEvery,
       "answers differ"},
      {"bound_of_answers_is_off_by_one", direct, kLook, R"(setp\.ge\.u64)", "setp.gt.u64", kEvery,
       "outside of the device's memory"},
      {"no_grid_sync_after_reserving", direct, kResolve, kSpin, "$1", 0, "verdicts differ"},
      {"no_grid_sync_after_deciding", direct, kResolve, kSpin, "$1", 1, "verdicts differ"},
      {"no_grid_sync_after_clearing", direct, kResolve, kSpin, "$1", 2, "verdicts differ"},
      {"blocks_do_not_arrive_at_the_grid_sync", direct, kResolve,
       R"(atom\.add\.release\.gpu\.u32 (%r\d+),\[(%rd\d+)\],%r\d+;)", "ld.relaxed.gpu.u32 $1,[$2];",
       kEvery, "nothing changes any more"},
      {"reservations_are_read_by_plain_loads", direct, kResolve, R"(ld\.volatile\.global)",
       "ld.global", kEvery, "a race: "},
      {"reservation_is_not_atomic", direct, kResolve,
       R"(atom\.global\.min\.u64\s+%rd\d+, \[(%rd\d+)\], (%rd\d+);)",
       "st.volatile.global.u64 [$1], $2;", kEvery, "differ"},
      {"verdicts_are_read_through_the_read_only_cache", direct, kResolve, R"(ld\.global\.u8)",
       "ld.global.nc.u8", kEvery, "what is read through the read-only cache is written"},
  };
}

/// Of insertions into the layout ranked, which have only one path.
std::vector<Mutant> mutants_of_ranked() {
  const std::string differ = "counters differ after insertion";
  const std::string swap = R"(atom\.global\.)" + kSwap;
  const std::string not_atomic =
      "ld.volatile.global.u64 $1, [$2]; st.volatile.global.u64 [$2], $3;";
  const auto mutant = [](std::string name, const std::string& kernel, std::string what,
                         std::string by, int which, std::string says) {
    return Mutant{std::move(name), Path::automatic, kernel,         std::move(what),
                  std::move(by),   which,           std::move(says)};
  };
  return {
      mutant("places_of_keys_left_over_are_not_taken", kAddToLists, kTakePlaces,
             "ld.volatile.global.u64 $1, [$2];", kEvery, differ),
      mutant("room_of_the_first_block_for_all", kAddToLists, kFourLanes, "$1 31;", kEvery,
             "a race: "),
      mutant("no_barrier_after_sorting_for_lists", kAddToLists, kBarrier, "", 4, "a race: "),
      mutant("counts_of_partitions_are_not_cleared_first", kCountDigits, kBarrier, "", 0,
             "a race: "),
      mutant("counts_of_partitions_are_read_early", kCountDigits, kBarrier, "", 1, "a race: "),
      mutant("counts_of_a_tile_are_lost", kCountDigits, kAtomicAdd, "", kEvery, differ),
      mutant("places_in_a_partition_are_not_taken", kScatterDigits, kTakePlaces,
             "ld.volatile.global.u64 $1, [$2];", kEvery, differ),
      mutant("places_in_a_tile_are_not_taken", kScatterDigits, kNext,
             "ld.volatile.shared.u32 $1, [$2];", kEvery, differ),
      mutant("no_barrier_before_numbers", kScatterDigits, kBarrier, "", 1,
             "outside of the shared memory"),
      mutant("no_barrier_after_numbers", kScatterDigits, kBarrier, "", 2, "a race: "),
      mutant("no_barrier_before_sorting_by_digit", kScatterDigits, kBarrier, "", 3,
             "outside of the shared memory"),
      mutant("no_barrier_after_sorting_by_digit", kScatterDigits, kBarrier, "", 4,
             "outside of the device's memory"),
      mutant("no_barrier_before_placing", kPlaceEntries, kBarrier, "", 0, "a race: "),
      mutant("no_barrier_after_placing", kPlaceEntries, kBarrier, "", 1, "a race: "),
      mutant("entries_that_were_there_are_not_listed", kMarkEntry,
             R"(atom\.global\.or\.b64\s+%rd\d+, [^;]*;)", "", 0, differ),
      mutant("lists_are_not_cleared", kWriteEntries, R"(st\.volatile\.global\.u64[^;]*;)", "",
             kEvery, differ),
      mutant("swap_of_a_spilled_count_is_not_atomic", kAddLeftOver, swap, not_atomic, kEvery,
             differ),
      mutant("spilled_count_stays_early", kAddLeftOver, R"((setp\.eq\.s64\s+%p\d+, %rd\d+,) 255;)",
             "$1 254;", kEvery, differ),
  };
}

/// Of insertions of new keys.
std::vector<Mutant> mutants_of_new_keys() {
  const std::string claim_blocks = "ClaimBlocksINS0_12CounterCells",
                    claim_cells = "ClaimCellsINS0_12CounterCells",
                    add_owners_of_blocks = "AddOwnersOfBlocksINS0_12CounterCellsELb1",
                    add_owners = "AddOwnersINS0_12CounterCellsELb1", differ = "verdicts differ";
  const std::string swap = R"(atom\.global\.)" + kSwap;
  const std::string not_atomic =
      "ld.volatile.global.u64 $1, [$2]; st.volatile.global.u64 [$2], $3;";
  const std::string lower = R"(atom\.global\.min\.u64\s+%rd\d+, \[(%rd\d+)\], (%rd\d+);)";
  const auto mutant = [](std::string name, const std::string& kernel, std::string what,
                         std::string by, int which, std::string says) {
    return Mutant{std::move(name), Path::automatic, kernel,         std::move(what),
                  std::move(by),   which,           std::move(says)};
  };
  return {
      mutant("claim_of_a_block_is_not_atomic", claim_blocks, swap, not_atomic, kEvery, differ),
      mutant("claim_of_a_cell_is_not_atomic", claim_cells, swap, not_atomic, kEvery, differ),
      mutant("last_key_owns_the_block", claim_blocks, lower, "st.volatile.global.u64 [$1], $2;",
             kEvery, differ),
      mutant("earlier_key_does_not_take_the_block", claim_blocks, lower, "", kEvery, differ),
      mutant("earlier_key_does_not_take_the_cell", claim_cells, lower, "", kEvery, differ),
      mutant("nobody_is_left", add_owners_of_blocks, kAtomicAdd, "", 0, differ),
      mutant("entries_are_not_freed", "11FreeEntries", R"(st\.global\.u64[^;]*;)", "", kEvery,
             differ),
      mutant("lanes_do_not_learn_of_an_owned_cell", add_owners, kButterfly, "mov.b32 $1, $2;",
             kEvery, differ),
      mutant("owners_do_not_add_up_what_they_filled", add_owners, kSum, "mov.b32 $1, $2;", kEvery,
             kFilledDiffer),
  };
}

constexpr std::uint64_t kSeeds = 3;

/// Does noticed_with(seed) say what it should for one of a few seeds?
template <class NoticedWith>
void expect_noticed(const Mutant& mutant, NoticedWith noticed_with) {
  const std::string text = mutated(mutant);
  ASSERT_NE(text, "") << "there is no such place in the kernel any more";
  ASSERT_NE(mutant.says, "") << "anything would do";
  ptx::replace_kernels(ptx::parse(text));
  std::string all;
  for (std::uint64_t seed = 1; seed <= kSeeds && all.find(mutant.says) == std::string::npos;
       ++seed) {
    all += noticed_with(seed);
  }
  ptx::replace_kernels({});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, mutant.says, all);
}

class OfMutant : public ::testing::TestWithParam<Mutant> {};
INSTANTIATE_TEST_SUITE_P(All, OfMutant, ::testing::ValuesIn(mutants()),
                         [](const auto& mutant) { return mutant.param.name; });
TEST_P(OfMutant, IsNoticed) {
  expect_noticed(GetParam(), [](std::uint64_t seed) { return noticed(GetParam().path, seed); });
}

class OfMutantOfRanked : public ::testing::TestWithParam<Mutant> {};
INSTANTIATE_TEST_SUITE_P(All, OfMutantOfRanked, ::testing::ValuesIn(mutants_of_ranked()),
                         [](const auto& mutant) { return mutant.param.name; });
TEST_P(OfMutantOfRanked, IsNoticed) {
  expect_noticed(GetParam(),
                 [](std::uint64_t seed) { return noticed(seed, what_differs_in_ranked); });
}

class OfMutantOfNewKeys : public ::testing::TestWithParam<Mutant> {};
INSTANTIATE_TEST_SUITE_P(All, OfMutantOfNewKeys, ::testing::ValuesIn(mutants_of_new_keys()),
                         [](const auto& mutant) { return mutant.param.name; });
TEST_P(OfMutantOfNewKeys, IsNoticed) {
  expect_noticed(GetParam(),
                 [](std::uint64_t seed) { return noticed(seed, what_differs_in_new_keys); });
}

TEST(TheKernels, GiveNothingToNotice) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_EQ(noticed(Path::direct, seed), "");
    EXPECT_EQ(noticed(Path::partitioned, seed), "");
    EXPECT_EQ(noticed(seed, what_differs_in_ranked), "");
    EXPECT_EQ(noticed(seed, what_differs_in_new_keys), "");
  }
}

/// Which of these kernels have run, since the last call, with so many threads that a block of them
/// has a multiprocessor to itself.
std::set<std::string> ran_with_many_threads(const std::set<std::string>& kernels) {
  std::set<std::string> ran;
  for (const auto& [name, count] : ptx::take_counts()) {
    for (const std::string& kernel : kernels) {
      if (name.find("thread_blocks_kernel<1024u, scbf::cuda::" + kernel) != std::string::npos) {
        ran.insert(kernel);
      }
    }
  }
  return ran;
}

TEST(TheKernels, GiveNothingToNoticeInLargePartitions) {
  ptx::take_counts();
  // So large that partitions of 128 KiB save a level of sorting.
  const auto geometry = scbf::Geometry::split(1, 35'000'000);
  EXPECT_EQ(noticed(1, [&] { return what_differs(Path::partitioned, geometry); }), "");
  const std::set<std::string> kernels{"AddToSlice", "TakeFromSlice"};
  EXPECT_EQ(ran_with_many_threads(kernels), kernels) << "the partitions were small";
}

TEST(TheKernels, GiveNothingToNoticeWhereAPartitionHasManyKeys) {
  ptx::set_settings({.most_instructions = 1'000'000'000});
  ptx::take_counts();
  const scbf::Geometry geometry = scbf::Geometry::split_block(1, 512);  // one partition
  const scbf::cuda::DeviceOptions options{.path = Path::partitioned};
  scbf::Filter model(geometry, {.seed = 5, .backend = "scalar"});
  DeviceFilter filter(geometry, 5);
  const auto same = [&] {
    std::vector<std::uint64_t> words(geometry.words());
    filter.download(words);
    return same_words(words, model.words());
  };
  const auto keys = random_keys(16'000, 3);
  const OnDevice<std::uint64_t> there(keys);
  filter.insert({there.get(), keys.size()}, options);
  model.insert(keys, {.threads = 1});
  EXPECT_TRUE(same());
  const Answers want = remove(model, keys);
  const Answered verdicts(keys.size());
  filter.remove({there.get(), keys.size()}, verdicts.get(), options);
  EXPECT_TRUE(same_answers(verdicts.to_host(), want));
  EXPECT_TRUE(same());
  EXPECT_EQ(fake_cuda::take_problems(), std::vector<std::string>{});
  const std::set<std::string> kernels{"AddToBlocks", "TakeFromBlocks"};
  EXPECT_EQ(ran_with_many_threads(kernels), kernels) << "the partition had few keys";
}

}  // namespace
