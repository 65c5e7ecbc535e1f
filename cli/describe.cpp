// SPDX-License-Identifier: Apache-2.0
#include "describe.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "stopwatch.hpp"

namespace scbf::cli {

void describe_work(Json& json, const KeyTotals& read, const Backend& backend, const RunOptions& run,
                   double seconds) {
  json["keys"] = read.keys;
  json["empty_lines"] = read.empty_lines;
  json["key_kind"] = to_string(read.kind);
  json["seconds"] = seconds;
  json["keys_per_second"] = per_second(read.keys, seconds);
  json["backend"] = backend.name();
  json["target"] = backend.target();
  json["threads"] = run.resolved_threads();
}

void describe_geometry(Json& json, const Geometry& geometry) {
  json["layout"] = to_string(geometry.layout());
  json["groups"] = geometry.groups();
  json["blocks_per_group"] = geometry.blocks_per_group();
  json["probes"] = geometry.probes();
  json["counters_per_slice"] = geometry.counters_per_slice();
  json["counters"] = geometry.counters();
  if (geometry.layout() == Layout::ranked) {
    json["positions"] = geometry.positions();
    json["spill_slots"] = geometry.spill_slots();
  }
  json["bytes"] = geometry.bytes();
  json["cache_lines_per_key"] = geometry.cache_lines_per_key();
}

void describe_growth(Json& json, const Growth& growth) {
  json["policy"] = to_string(growth.policy());
  json["fpr_target"] = growth.fpr();
  json["most_stages"] = growth.most_stages();
  json["first_capacity"] = growth.first_capacity();
  json["growth"] = growth.growth();
  json["tightening"] = growth.tightening();
}

void describe_growth_of_bank(Json& json, const Growth& growth) {
  if (growth.policy() == Growth::Policy::one) {
    json["policy"] = to_string(growth.policy());
  } else {
    describe_growth(json, growth);
  }
  describe_geometry(json, growth.first_geometry());
}

void describe_size(Json& json, const FilterBase& filter) {
  json["bytes"] = filter.bytes();
  if (filter.growth().policy() != Growth::Policy::one) json["stages"] = filter.stages();
}

void describe_epoch(Json& json, const Epoch& epoch) {
  if (!epoch) return;
  json["epoch"] = epoch.number;
  json["history"] = fmt::format("0x{:016x}", epoch.history);
}

namespace {

template <class Counted>
void describe_counted(Json& json, const Counted& statistics) {
  json["fill"] = statistics.fill;
  json["saturated"] = statistics.saturated;
  json["estimated_keys"] = statistics.estimated_keys;
  json["estimated_fpr"] = statistics.estimated_fpr;
}

}  // namespace

void describe_fill(Json& json, const Statistics& statistics) { describe_counted(json, statistics); }
void describe_fill(Json& json, const StageStatistics& statistics) {
  describe_counted(json, statistics);
}

std::string_view kind_of(const FileInfo& info) {
  if (info.is_delta) return "delta";
  return info.cell() == Cell::bit ? "bits" : "counters";
}
std::string_view kind_of(const BankFileInfo& info) {
  return info.cell == Cell::bit ? "bits_bank" : "bank";
}

}  // namespace scbf::cli
