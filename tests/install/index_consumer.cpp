// SPDX-License-Identifier: Apache-2.0
// Uses the secondary index of an installed copy of scbf: returns 0 if it answers as it should.
#include <cstdlib>
#include <filesystem>
#include <scbf/secondary_index.hpp>
#include <string>

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "scbf-consumer-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  bool found = false;
  {
    auto index = scbf::SecondaryIndex::create(
        std::filesystem::path(folder) / "index",
        {.key = "id", .columns = {{.name = "city", .indexed = true}}}, {.servers = 2});
    index.put({"a", {"Ulm"}});
    found = index.query({.all_of = {{"city", "Ulm"}}}).rows.size() == 1;
  }
  std::filesystem::remove_all(folder);
  return found ? 0 : 2;
}
