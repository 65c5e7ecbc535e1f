// SPDX-License-Identifier: Apache-2.0
// What the command notes in the metadata of filters and banks (docs/file_format.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "key_kinds.hpp"

namespace scbf::python {

struct Notes {
  KindsOfKeys kinds = KindsOfKeys::none;
  std::optional<std::uint64_t> capacity = {};
  std::optional<double> fpr = {};
};

/// Empty where the metadata are anything but such notes.
Notes read_notes(const std::string& metadata);

}  // namespace scbf::python
