// SPDX-License-Identifier: Apache-2.0
// Lists of the keys that have one answer: present, absent, new.
#pragma once

#include <cstdint>
#include <span>

#include "key_reader.hpp"
#include "output.hpp"

namespace scbf::cli {

/// Writes the keys of a block whose answer is `wanted`, in order, each ended as it came. So many
/// threads prepare them. Throws as write_key; `out` has all keys before that.
void list_keys(Output& out, unsigned threads, const KeyBlock& block, const KeyFormat& format,
               std::span<const std::uint8_t> answers, std::uint8_t wanted);

}  // namespace scbf::cli
