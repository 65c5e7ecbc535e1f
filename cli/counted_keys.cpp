// SPDX-License-Identifier: Apache-2.0
#include "counted_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "block_sizes.hpp"
#include "progress.hpp"
#include "scbf/errors.hpp"
#include "sizes.hpp"

namespace scbf::cli {

namespace {

/// Hashes of one part: 8 MiB, so that parts are large batches and little memory is unused.
constexpr std::size_t kPart = std::size_t{1} << 20;

}  // namespace

CountedKeys::CountedKeys(const std::vector<std::string>& inputs, const KeyFormat& format,
                         std::uint64_t seed, const RunOptions& run, std::uint64_t most_bytes) {
  if (const auto keys = keys_by_length(inputs, format)) {
    totals_.keys = *keys;
    return;
  }
  were_read_ = true;
  have_hashes_ = true;
  KeyReader reader(inputs, format, {.threads = run.resolved_threads(), .seed = seed});
  const auto keep = [&](const KeyBatch& keys) {
    for (std::size_t first = 0, taken = 0; first < keys.size(); first += taken) {
      if (hashes_.empty() || hashes_.back().size == kPart) {
        if ((hashes_.size() + 1) * kPart * sizeof(std::uint64_t) > most_bytes) return false;
        // Not cleared: it is written before it is read.
        hashes_.push_back({std::make_unique_for_overwrite<std::uint64_t[]>(kPart)});
      }
      Hashes& last = hashes_.back();
      taken = std::min(keys.size() - first, kPart - last.size);
      keys.slice(first, taken).hashes(seed, {last.words.get() + last.size, taken});
      last.size += taken;
    }
    return true;
  };
  run.go_through(reader, "counting", [&](const KeyBlock& block) {
    if (!have_hashes_) return;
    try {
      if (!keep(block.batch())) forget_hashes();
    } catch (const std::bad_alloc&) {
      forget_hashes();
    }
  });
  totals_ = reader.totals();
  // Otherwise each of many small inputs would keep room for a million hashes.
  if (!hashes_.empty()) hashes_.back().shrink();
}

void CountedKeys::Hashes::shrink() noexcept {
  try {
    auto fitting = std::make_unique_for_overwrite<std::uint64_t[]>(size);
    std::copy_n(words.get(), size, fitting.get());
    words = std::move(fitting);
  } catch (const std::bad_alloc&) {
    // The room stays.
  }
}

void CountedKeys::take_hashes(const std::function<void(const KeyBatch&, std::uint64_t)>& use) {
  std::uint64_t used = 0;
  for (Hashes& part : hashes_) {
    const Hashes now = std::exchange(part, {});  // freed when it is used
    used += now.size;
    use(KeyBatch::from_hashes({now.words.get(), now.size}), used);
  }
  hashes_.clear();
}

KeyTotals insert_keys(FilterBase& filter, const std::vector<std::string>& inputs, KeyFormat format,
                      std::optional<CountedKeys>& counted, const RunOptions& run,
                      const char* what) {
  BulkInserter bulk = filter.bulk(run.batch());
  KeyTotals totals;
  if (counted && counted->have_hashes()) {
    totals = counted->totals();
    Progress progress(run.progress, what, totals.keys);
    counted->take_hashes([&](const KeyBatch& hashes, std::uint64_t so_far) {
      bulk.insert(hashes);
      progress.update(so_far, so_far);
    });
    progress.finish(totals.keys, totals.keys);
  } else {
    if (counted && counted->were_read()) format.tell = false;
    KeyReader reader(inputs, format,
                     {.threads = run.resolved_threads(),
                      .seed = filter.seed(),
                      .block_bytes = bulk_block(filter.backend())});
    run.go_through(reader, what, [&](const KeyBlock& block) { bulk.insert(block.batch()); });
    totals = reader.totals();
  }
  bulk.finish();
  if (counted && totals.keys < counted->keys()) {
    throw IoError(fmt::format("{} counted, and then only {} read: an input was cut meanwhile",
                              scbf::cli::counted(counted->keys(), "key"), grouped(totals.keys)));
  }
  return totals;
}

}  // namespace scbf::cli
