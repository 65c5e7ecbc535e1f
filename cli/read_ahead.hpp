// SPDX-License-Identifier: Apache-2.0
// Reading on one thread while another works.
#pragma once

#include <functional>

#include "key_reader.hpp"

namespace scbf::cli {

/// Calls use(block) for each block of keys. With `ahead`, a second thread reads the next block
/// meanwhile, if one can be started. If `use` throws, reading is stopped, also where it waits for
/// input. Throws IoError, after all keys before the error were used.
void for_each_block(KeyReader& reader, bool ahead, const std::function<void(const KeyBlock&)>& use);

}  // namespace scbf::cli
