// SPDX-License-Identifier: Apache-2.0
// For tests of the secondary index: one with three saved filters, which can be damaged, and whose
// store can be changed while it is closed.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>

#include "encoding.hpp"
#include "indexed.hpp"
#include "scbf/secondary_index.hpp"
#include "store.hpp"

namespace scbf::test {

class Filters : public ::testing::Test {
 protected:
  Filters() {
    for (const Row& row : numbered(300)) plain_.put(row);
    test_.index.presplit(std::vector<std::string>{"000100", "000200"});
    test_.index.put(numbered(300));
    test_.index.checkpoint();
    for (const RegionInfo& region : test_.index.regions()) regions_.push_back(region.id);
  }
  std::filesystem::path file(RegionId region) {
    return test_.directory / "index" / "filters" / fmt::format("{}.scbf", region);
  }
  /// Closes the index, calls `damage`, and opens the index again.
  template <class Damage>
  const RecoveryReport& after(const Damage& damage, const IndexOptions& options = {}) {
    { const SecondaryIndex closed = std::move(test_.index); }
    damage();
    test_.index = SecondaryIndex::open(test_.directory / "index", options);
    return test_.index.recovery();
  }
  void flip(const std::filesystem::path& path, std::streamoff at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(at);
    file.put(byte);
  }

  Indexed test_{{.servers = 3}};
  PlainTable plain_{people()};
  std::vector<RegionId> regions_;
};

class Damaged : public Filters {
 protected:
  void change(const std::function<void(index::Store&)>& work) {
    { const SecondaryIndex closed = std::move(test_.index); }
    index::Store store(test_.directory / "index" / "store", index::Store::Open::existing, 1 << 20);
    work(store);
  }
  void put(index::Family family, const std::string& key, const std::string& value) {
    change([&](index::Store& store) {
      index::StoreBatch batch = store.batch();
      batch.put(family, key, value);
      store.write(std::move(batch), true);
    });
  }
  void erase(index::Family family, const std::string& key) {
    change([&](index::Store& store) {
      index::StoreBatch batch = store.batch();
      batch.erase(family, key);
      store.write(std::move(batch), true);
    });
  }
  SecondaryIndex open() { return SecondaryIndex::open(test_.directory / "index"); }
  static std::string state_key(RegionId id) { return "state/" + index::region_key(id); }
  static std::string record_key(RegionId id) { return "region/" + index::region_key(id); }
};

}  // namespace scbf::test
