// SPDX-License-Identifier: Apache-2.0
// How messages name files, columns, keys and values.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace scbf::detail {

/// `name` in single quotes, as every message shows it. Printable and UTF-8, whatever the bytes: a
/// quote and a backslash get a backslash before them; control bytes (below 0x20, and 0x7F), and
/// bytes that are not UTF-8, become \xHH. If there are more than `most` bytes, only whole
/// characters of the first `most` are shown, and … before the closing quote.
std::string in_quotes(std::string_view name, std::size_t most = std::string_view::npos);

}  // namespace scbf::detail
