// SPDX-License-Identifier: Apache-2.0
// Decompression of gzip by zlib and of zstd by libzstd.
#pragma once

#include <memory>
#include <span>
#include <string_view>

namespace scbf::cli {

/// Decodes a stream step by step. Several compressed files one after another are one stream, as
/// `gzip -d` and `zstd -d` take them.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Decodes bytes from the front of `from` into the front of `to`; afterwards both are what is
  /// left. Throws std::runtime_error with a reason if the bytes are damaged.
  virtual void step(std::string_view& from, std::span<char>& to) = 0;
  /// Whether the stream may end here.
  virtual bool complete() const noexcept = 0;
};

/// "gzip", "zstd", or nothing if a stream that begins with `first` is not compressed.
std::string_view compression_of(std::string_view first) noexcept;
/// The decoder for a stream that begins with `first`; null if it is not compressed.
std::unique_ptr<Decoder> decoder_for(std::string_view first);
/// Whether more bytes are needed to tell: `first` is the beginning of a mark.
bool may_become_compressed(std::string_view first) noexcept;

}  // namespace scbf::cli
