// SPDX-License-Identifier: Apache-2.0
#include "decoder.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>

namespace scbf::cli {

namespace {

constexpr std::string_view kGzip = "\x1F\x8B\x08";
constexpr std::string_view kZstd = "\x28\xB5\x2F\xFD";

class GzipDecoder final : public Decoder {
 public:
  GzipDecoder() {
    constexpr int kGzipOnly = 16;
    if (::inflateInit2(&stream_, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecoder() override { ::inflateEnd(&stream_); }

  void step(std::string_view& from, std::span<char>& to) override {
    if (complete_) {
      // Tapes and disks pad files with zeros; gzip ignores them, too.
      from.remove_prefix(std::min(from.find_first_not_of('\0'), from.size()));
      if (from.empty()) return;
      ::inflateReset(&stream_);
      complete_ = false;
    }
    const auto limited = [](std::size_t bytes) {
      return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
    };
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
    stream_.avail_in = limited(from.size());
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = limited(to.size());
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    // Z_BUF_ERROR only says that there is too little to go on with.
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      throw std::runtime_error(
          fmt::format("damaged gzip: {}", stream_.msg != nullptr ? stream_.msg : "no reason"));
    }
    complete_ = result == Z_STREAM_END;
    from.remove_prefix(
        static_cast<std::size_t>(reinterpret_cast<const char*>(stream_.next_in) - from.data()));
    to =
        to.subspan(static_cast<std::size_t>(reinterpret_cast<char*>(stream_.next_out) - to.data()));
  }
  bool complete() const noexcept override { return complete_; }

 private:
  z_stream stream_{};
  bool complete_ = false;
};

class ZstdDecoder final : public Decoder {
 public:
  ZstdDecoder() : stream_(::ZSTD_createDStream(), ::ZSTD_freeDStream) {
    if (!stream_) throw std::bad_alloc();
  }

  void step(std::string_view& from, std::span<char>& to) override {
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    const std::size_t result = ::ZSTD_decompressStream(stream_.get(), &out, &in);
    if (::ZSTD_isError(result) != 0) {
      throw std::runtime_error(fmt::format("damaged zstd: {}", ::ZSTD_getErrorName(result)));
    }
    complete_ = result == 0;
    from.remove_prefix(in.pos);
    to = to.subspan(out.pos);
  }
  bool complete() const noexcept override { return complete_; }

 private:
  std::unique_ptr<ZSTD_DStream, decltype(&::ZSTD_freeDStream)> stream_;
  bool complete_ = false;
};

}  // namespace

std::string_view compression_of(std::string_view first) noexcept {
  return first.starts_with(kGzip) ? "gzip" : first.starts_with(kZstd) ? "zstd" : "";
}

std::unique_ptr<Decoder> decoder_for(std::string_view first) {
  if (first.starts_with(kGzip)) return std::make_unique<GzipDecoder>();
  if (first.starts_with(kZstd)) return std::make_unique<ZstdDecoder>();
  return nullptr;
}

bool may_become_compressed(std::string_view first) noexcept {
  return (first.size() < kGzip.size() && kGzip.starts_with(first)) ||
         (first.size() < kZstd.size() && kZstd.starts_with(first));
}

}  // namespace scbf::cli
