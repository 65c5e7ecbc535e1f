// SPDX-License-Identifier: Apache-2.0
// scbf index in a command that was built without the secondary index.
#include "errors.hpp"
#include "verbs.hpp"

namespace scbf::cli {

Run set_up_index(CommandLine& line) {
  line.anything();
  line.footer("This command was built without the secondary index.");
  return []() -> int {
    throw UsageError(
        "index: this command was built without the secondary index; it takes librocksdb-dev, "
        "and -DSCBF_INDEX=ON when configuring");
  };
}

}  // namespace scbf::cli
