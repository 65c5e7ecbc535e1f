// SPDX-License-Identifier: Apache-2.0
#include "keys/arrow_extensions.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "errors.hpp"
#include "keys/arrow_columns.hpp"

namespace scbf::python {
namespace {

/// A schema's metadata: the number of entries, then the key and the value of each, and before every
/// text its length. Nothing says how long the whole is; real metadata are far shorter than this
/// limit.
constexpr std::int64_t kMostMetadataBytes = std::int64_t{64} << 20;

class Metadata {
 public:
  explicit Metadata(const char* at) : at_(at) {}

  std::int32_t number() {
    std::int32_t read;
    std::memcpy(&read, take(sizeof read), sizeof read);
    return read;
  }
  std::string_view text() {
    const std::int32_t length = number();
    return {take(length), static_cast<std::size_t>(length)};
  }

 private:
  const char* take(std::int64_t bytes) {
    if (bytes < 0 || bytes > left_) {
      broken(fmt::format("a text of {} bytes in its schema's metadata", bytes));
    }
    left_ -= bytes;
    at_ += bytes;
    return at_ - bytes;
  }

  const char* at_;
  std::int64_t left_ = kMostMetadataBytes;
};

struct Extension {
  std::string_view name, metadata;  // empty: none
};

Extension extension_of(const ArrowSchema& schema) {
  Extension found;
  if (!schema.metadata) return found;
  Metadata metadata(schema.metadata);
  const std::int32_t entries = metadata.number();
  if (entries < 0) broken(fmt::format("{} entries in its schema's metadata", entries));
  for (std::int32_t i = 0; i < entries; ++i) {
    const std::string_view key = metadata.text(), value = metadata.text();
    if (key == "ARROW:extension:name") found.name = value;
    if (key == "ARROW:extension:metadata") found.metadata = value;
  }
  return found;
}

/// The string that JSON has for a key, as it is written there; empty if it has none.
std::string_view string_in(std::string_view json, std::string_view key) {
  const std::size_t at = json.find(fmt::format("\"{}\"", key));
  if (at == json.npos) return {};
  const std::size_t begin = json.find_first_not_of(" \t\r\n:", at + key.size() + 2);
  if (begin == json.npos || json[begin] != '"') return {};
  const std::size_t end = json.find('"', begin + 1);
  return end == json.npos ? std::string_view() : json.substr(begin + 1, end - begin - 1);
}

std::string_view advice(std::string_view name) {
  struct Entry {
    std::string_view name, advice;
  };
  static constexpr Entry kEntries[] = {
      {"arrow.bool8", "true and false are no keys; was a mask given for the column?"},
      {"arrow.opaque", "cast it to int64 or to a string"},
      {"arrow.uuid",
       "cast it to a string or to its 16 bytes, the same for all data of a filter (in DuckDB "
       "key::VARCHAR, in pyarrow cast(pa.binary(16)))"},
      {"pandas.period", "cast it to int64 or to a string, the same for all data of a filter"},
      {"pandas.interval", "choose one of its ends"},
  };
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.advice;
  }
  return "cast it to its storage type, or to int64 or a string, the same for all data of a filter";
}

}  // namespace

void check_extension(const ArrowSchema& schema) {
  const Extension extension = extension_of(schema);
  if (extension.name.empty() || extension.name == "arrow.json") return;
  const std::string_view of = string_in(extension.metadata, "type_name");
  throw InvalidKey(fmt::format("an Arrow column of the extension type {}{} cannot be keys: {}",
                               printable(extension.name.substr(0, 60)),
                               extension.name == "arrow.opaque" && !of.empty()
                                   ? fmt::format(" ({})", printable(of.substr(0, 60)))
                                   : std::string(),
                               advice(extension.name)));
}

std::string_view extension_name(const ArrowSchema& schema) {
  const std::string_view name = extension_of(schema).name;
  return name == "arrow.json" ? std::string_view() : name;
}

}  // namespace scbf::python
