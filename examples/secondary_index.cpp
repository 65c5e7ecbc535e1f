// SPDX-License-Identifier: Apache-2.0
// A table of packages in four regions on four servers, queried by value. It prints which servers
// are asked, and what a restart restores.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "scbf/secondary_index.hpp"

int main() {
  const std::filesystem::path folder = "packages.index";
  std::filesystem::remove_all(folder);
  {
    auto index = scbf::SecondaryIndex::create(
        folder,
        {.key = "package",
         .columns = {{.name = "section", .indexed = true},
                     {.name = "depends", .indexed = true, .separator = ","}}},
        {.fpr = 0.01, .servers = 4});
    index.presplit(std::vector<std::string>{"g", "m", "s"});
    index.put({"bash", {"shells", "base-files, debianutils"}});
    index.put({"dash", {"shells", "debianutils, libc6"}});
    index.put({"grep", {"utils", "libc6, libpcre2-8-0"}});
    index.put({"zsh", {"shells", "zsh-common, libc6"}});
    index.remove("dash");
  }  // the destructor saves the filters

  auto index = scbf::SecondaryIndex::open(folder);
  const auto answer = index.query({.all_of = {{"section", "shells"}, {"depends", "libc6"}}});
  for (const scbf::Row& row : answer.rows) std::printf("%s\n", row.key.c_str());
  std::printf("asked %u of %u servers, of which %u had it\n", answer.routing.requests,
              answer.routing.servers, answer.routing.servers_holding);
  return answer.rows.size() == 1 && answer.rows[0].key == "zsh" &&
                 answer.routing.requests <= answer.routing.servers &&
                 answer.routing.servers_holding == 1
             ? 0
             : 1;
}
