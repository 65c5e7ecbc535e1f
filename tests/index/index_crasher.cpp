// SPDX-License-Identifier: Apache-2.0
// Works on an index until it is killed or ends itself at a named crash point. index_crash_test
// checks what is left. Arguments: index, seed of the script, first step, file of acknowledgements,
// crash point to end at ("-": none), how often to pass it before that. With "load" in place of the
// seed each step loads all rows of load_row. With "add" or "drop" it adds or drops the columns
// "note" and "city" instead, and ends.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "crash_points.hpp"
#include "index_support.hpp"

namespace {

const char* deadly = nullptr;
int passes_left = 0;

void die_there(const char* name) {
  if (std::strcmp(name, deadly) == 0 && passes_left-- == 0) ::_exit(9);  // nothing is flushed
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  const std::uint64_t seed = std::strtoull(argv[2], nullptr, 10);
  std::uint64_t step = std::strtoull(argv[3], nullptr, 10);
  const int acknowledgements = ::open(argv[4], O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (acknowledgements < 0) return 2;
  deadly = argv[5];
  passes_left = std::atoi(argv[6]);
  scbf::index::at_crash_point = die_there;
  if (std::strcmp(argv[2], "add") == 0) {
    const scbf::Column columns[] = {{.name = "note", .separator = " "}, {.name = "city"}};
    scbf::SecondaryIndex::add_columns(argv[1], columns);
    return 0;
  }
  if (std::strcmp(argv[2], "drop") == 0) {
    const std::string columns[] = {"note", "city"};
    scbf::SecondaryIndex::drop_columns(argv[1], columns);
    return 0;
  }
  const bool loads = std::strcmp(argv[2], "load") == 0;
  auto index = scbf::SecondaryIndex::open(argv[1]);
  for (;; ++step) {
    if (loads) {
      std::uint64_t i = 0;
      index.bulk_load([&](scbf::Row& row) {
        if (i < scbf::test::kLoadRows) row = scbf::test::load_row(i, step);
        return i++ < scbf::test::kLoadRows;
      });
    } else {
      scbf::test::take(index, scbf::test::script_step(seed, step));
    }
    if (::write(acknowledgements, &step, sizeof step) != sizeof step) return 2;
  }
}
