// SPDX-License-Identifier: Apache-2.0
// The field in one run: our counters and bits, in batches and one key a call, beside the structures
// that the literature names, all with the same keys at the same false-positive rate.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "comparators.hpp"
#include "driver/driver.hpp"
#include "driver/filter_case.hpp"
#include "field/subjects.hpp"

namespace {

using namespace scbf;
using namespace scbf::bench;

constexpr const char* kUsage =
    "usage: field_bench [keys …] [Google Benchmark's flags]\n"
    "keys: at least 1000; without, 100000 and 10000000\n";

constexpr double kFpr = 0.01;
/// The most keys per timed call of what works on one key at a time.
constexpr std::size_t kSample = 4'000'000;

/// A case with all operations that it has. Small ones are timed often, large ones three times.
void add(FilterCase c, bool removes) {
  const bool batched = c.ours() && !is_key_by_key(c.calls);
  c.fpr = kFpr;
  c.batch = batched ? c.n : std::min(c.n, kSample);
  const bool large = c.n > 1'000'000;
  const std::size_t keys = large ? 1 : 20 * std::min<std::size_t>(c.n, 100'000);
  c.batches = std::max<std::size_t>(1, keys / c.batch);
  c.repetitions = large ? 3 : 5;
  c.operations = {Operation::insert, Operation::miss, Operation::hit};
  if (removes) c.operations.push_back(Operation::remove);
  add_filter_case(std::move(c));
}

void add_field(std::size_t n) {
  add({.n = n}, true);
  add({.n = n, .calls = Calls::view}, true);
  add({.structure = "ranked", .n = n}, true);
  add({.structure = "ranked", .n = n, .calls = Calls::view}, true);
  add({.n = n, .cell = Cell::bit}, false);
  add({.n = n, .calls = Calls::view, .cell = Cell::bit}, false);
  add({.structure = "textbook", .n = n, .other = [=] { return make_textbook(n, kFpr); }}, true);
  for (const FieldStructure& structure : field_structures()) {
    add({.structure = structure.name,
         .n = n,
         .other = [=, make = structure.make] { return make(n, kFpr); }},
        structure.removes);
  }
  for (const Calls calls : {Calls::one, Calls::key}) {
    add({.structure = "blocked",
         .n = n,
         .calls = calls,
         .other = [=] { return make_blocked(n, kFpr, calls); }},
        false);
  }
#if SCBF_BENCH_LIBBLOOM
  add({.structure = "libbloom", .n = n, .other = [=] { return make_libbloom(n, kFpr); }}, false);
#endif
}

void add_cases(const std::vector<std::string>& arguments) {
  std::vector<std::size_t> sizes;
  for (const std::string& argument : arguments) sizes.push_back(parse_number(argument, 1000));
  if (sizes.empty()) sizes = {100'000, 10'000'000};
  add_context("libbloom",
              SCBF_BENCH_LIBBLOOM ? "compared with" : "not found when configured: left out");
  // Ordered, so that keys are made once per n.
  std::ranges::sort(sizes);
  for (const std::size_t n : sizes) add_field(n);
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv, kUsage, add_cases); }
