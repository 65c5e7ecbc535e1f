// SPDX-License-Identifier: Apache-2.0
// Scalable filters to and from bytes: a container header, then each stage as a filter file of its
// own, which the readers of filters read (filter_io.cpp).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "files/container_format.hpp"
#include "files/file_input.hpp"
#include "files/filter_files.hpp"
#include "scbf/scalable_filter.hpp"

namespace scbf {

namespace {

using container_format::Entry;
using ContainerHeader = container_format::Header;
using StageHeader = file_format::Header;

std::uint64_t checksum_in(std::span<const std::byte> header) noexcept {
  std::uint64_t value;
  std::memcpy(&value, header.data() + file_format::kChecksumOffset, sizeof value);
  return value;
}

ContainerHeader read_container_header(Input& input, std::uint64_t& file_bytes) {
  std::vector<std::byte> bytes(container_format::kFixedBytes);
  bytes.resize(input.read_some(bytes));
  const std::uint64_t header_bytes = container_format::checked_header_bytes(bytes, input.name());
  if (input.bytes() && *input.bytes() < header_bytes) {
    file_format::throw_truncated(*input.bytes(), header_bytes, input.name());
  }
  bytes.resize(header_bytes);
  input.read_all(std::span(bytes).subspan(container_format::kFixedBytes), header_bytes);
  ContainerHeader header = container_format::decode_header(bytes, input.name(), file_bytes);
  if (input.bytes() && *input.bytes() < file_bytes) {
    file_format::throw_truncated(*input.bytes(), file_bytes, input.name());
  }
  return header;
}

/// Reads up to byte `to`, all zeros.
void read_padding(Input& input, std::uint64_t to, std::uint64_t file_bytes) {
  std::vector<std::byte> bytes(to - input.position());
  input.read_all(bytes, file_bytes);
  if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; })) {
    throw CorruptFile(fmt::format("{}: padding before byte {} is not zero", input.name(), to));
  }
}

StageHeader checked_stage_header(Input& input, const ContainerHeader& container,
                                 const Entry& entry) {
  StageHeader header = FilterFiles::read_header(input);
  const auto refuse = [&](const std::string& what) {
    throw CorruptFile(fmt::format("{}: {}", input.name(), what));
  };
  if (checksum_in(file_format::encode_header(header)) != entry.header_checksum) {
    refuse("its header is not the one that the container knows");
  }
  if (header.seed != container.seed) {
    refuse(fmt::format("seed {}: the container has {}", header.seed, container.seed));
  }
  if (entry.full_at < 1 || entry.full_at > header.geometry.counters()) {
    refuse(fmt::format("full at {} counters: must be 1 to {}", entry.full_at,
                       header.geometry.counters()));
  }
  return header;
}

/// Calls use(index, input, header) for each stage, whose header has been read and checked; it must
/// read the counters or skip them in the outer input. Then the padding in between is checked.
template <class Use>
void for_each_stage(Input& input, const ContainerHeader& container, std::uint64_t file_bytes,
                    Use use) {
  for (std::size_t i = 0; i < container.stages.size(); ++i) {
    const Entry& entry = container.stages[i];
    read_padding(input, entry.offset, file_bytes);
    std::uint64_t left = entry.bytes;
    const ByteSource source = [&](std::span<std::byte> out) {
      const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left));
      const std::size_t got = input.read_some(out.first(most));
      left -= got;
      return got;
    };
    // What is known of the length of a file holds for its stages; that of a stream is a claim.
    Input part(fmt::format("{}: stage {}", input.name(), i), source,
               input.bytes() ? std::optional(entry.bytes) : std::nullopt);
    StageHeader header = checked_stage_header(part, container, entry);
    if (header.file_bytes() != entry.bytes) {
      throw CorruptFile(fmt::format("{}: {} bytes: the container says {}", part.name(),
                                    header.file_bytes(), entry.bytes));
    }
    use(i, part, std::move(header));
  }
}

bool close(double a, double b) { return std::abs(a - b) <= container_format::kClose * b; }

/// As the file says; or as the growth says here, if the difference is the last digits of another C
/// library's logarithms.
StageShape shape_of(const StageHeader& header, const Entry& entry, const Growth& growth) {
  const StageShape said = {header.geometry, entry.fpr, entry.full_at};
  if (entry.index >= growth.most_stages()) return said;
  if (growth.policy() == Growth::Policy::tightening) {
    // Working such a stage out takes a search: only where the rate shows another library.
    const double fpr = tightened_fpr(growth.fpr(), growth.tightening(), entry.index);
    if (said.fpr == fpr || !close(said.fpr, fpr)) return said;
  }
  try {
    const StageShape here = growth.stage(entry.index);
    const auto [less, more] = std::minmax(here.full_at, said.full_at);
    if (here.geometry == said.geometry && close(said.fpr, here.fpr) && more - less <= 1) {
      return here;
    }
  } catch (const InvalidArgument&) {  // no filter has a stage like that one
  }
  return said;
}

}  // namespace

/// Builds filters from what was read.
struct ScalableFiles {
  static ScalableFilter read(Input& input, const Backend& backend) {
    std::uint64_t file_bytes = 0;
    ContainerHeader container = read_container_header(input, file_bytes);
    ScalableFilter filter(ScalableFilter::ForFiles{}, container.growth, container.seed, backend);
    for_each_stage(
        input, container, file_bytes, [&](std::size_t i, Input& part, StageHeader&& header) {
          add(filter, container.stages[i], shape_of(header, container.stages[i], container.growth),
              FilterFiles::read_counters(part, std::move(header), backend));
        });
    filter.metadata_ = std::move(container.metadata);
    return filter;
  }

  static ScalableFilter map(const std::filesystem::path& path, FileInput& file,
                            const Backend& backend) {
    std::uint64_t file_bytes = 0;
    ContainerHeader container = read_container_header(file.input, file_bytes);
    ScalableFilter filter(ScalableFilter::ForFiles{}, container.growth, container.seed, backend);
    for_each_stage(file.input, container, file_bytes,
                   [&](std::size_t i, Input&, StageHeader&& header) {
                     const Entry& entry = container.stages[i];
                     const StageShape shape = shape_of(header, entry, container.growth);
                     const std::uint64_t payload = header.payload_bytes();
                     add(filter, entry, shape,
                         FilterFiles::map_counters(path, entry.offset, std::move(header), backend));
                     file.input.skip(payload, file_bytes);
                   });
    check_end(file.input);
    filter.metadata_ = std::move(container.metadata);
    return filter;
  }

  static ScalableFileInfo info(Input& input, bool verify) {
    std::uint64_t file_bytes = 0;
    ContainerHeader container = read_container_header(input, file_bytes);
    ScalableFileInfo info{
        container_format::kVersion,   container.growth, container.seed, {}, file_bytes,
        std::move(container.metadata)};
    for_each_stage(
        input, container, file_bytes, [&](std::size_t i, Input& part, StageHeader&& header) {
          if (verify) {
            FilterFiles::verify_counters(part, header);
          } else {
            input.skip(header.payload_bytes(), file_bytes);
          }
          const Entry& entry = container.stages[i];
          const StageShape shape = shape_of(header, entry, container.growth);
          info.stages.push_back({entry.offset, shape, FilterFiles::info_of(std::move(header))});
        });
    check_end(input);
    return info;
  }

  static void add(ScalableFilter& filter, const Entry& entry, const StageShape& shape,
                  Filter&& counters) {
    // Counted when somebody wants to insert.
    filter.stages_.push_back({std::move(counters), shape, entry.index, shape.geometry.counters()});
  }

  static void write(const ScalableFilter& filter, const ByteSink& sink) {
    ContainerHeader container{
        .growth = filter.growth_, .seed = filter.seed_, .metadata = filter.metadata_};
    std::vector<std::vector<std::byte>> headers;
    for (const auto& stage : filter.stages_) {
      const StageHeader header = FilterFiles::header_of(stage.filter);
      headers.push_back(file_format::encode_header(header));
      container.stages.push_back({0, header.file_bytes(), stage.shape.full_at, stage.shape.fpr,
                                  stage.index, checksum_in(headers.back())});
    }
    const std::uint64_t file_bytes = container.lay_out();
    sink(container_format::encode_header(container, file_bytes));
    std::uint64_t at = container.bytes();
    for (std::size_t i = 0; i < filter.stages_.size(); ++i) {
      const Entry& entry = container.stages[i];
      if (entry.offset > at) sink(std::vector<std::byte>(entry.offset - at));
      sink(headers[i]);
      FilterFiles::write_payload(filter.stages_[i].filter, sink);
      at = entry.offset + entry.bytes;
    }
  }
};

void ScalableFilter::write(const ByteSink& sink) const { ScalableFiles::write(*this, sink); }

void ScalableFilter::save(const std::filesystem::path& path) const {
  write_file(path, [this](const ByteSink& sink) { write(sink); });
}

ScalableFilter ScalableFilter::read(const ByteSource& source, const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  Input input("stream", source);
  return ScalableFiles::read(input, backend);
}

ScalableFilter ScalableFilter::load(const std::filesystem::path& path,
                                    const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  FileInput file(path);
  ScalableFilter filter = ScalableFiles::read(file.input, backend);
  check_end(file.input);
  return filter;
}

ScalableFilter ScalableFilter::map(const std::filesystem::path& path,
                                   const FilterOptions& options) {
  const Backend& backend = find_backend(options.backend);
  if (backend.memory() != kHostMemory) return load(path, options);
  constexpr int kTries = 100;  // as in Filter::map: until all looks met the same file
  for (int attempt = 0; attempt < kTries; ++attempt) {
    FileInput file(path);
    if (!file.input.bytes()) {
      throw IoError(fmt::format("{}: cannot map: not a regular file; load it", path.string()));
    }
    ScalableFilter filter = ScalableFiles::map(path, file, backend);
    if (file.file.still_named()) return filter;
  }
  throw IoError(fmt::format("{}: cannot map: replaced {} times meanwhile", path.string(), kTries));
}

bool is_scalable_file(const std::filesystem::path& path) noexcept {
  try {
    FileInput file(path);
    if (!file.input.bytes()) return false;  // what is taken from a pipe is gone
    std::array<std::byte, container_format::kMagic.size()> magic{};
    return file.input.read_some(magic) == magic.size() &&
           std::memcmp(magic.data(), container_format::kMagic.data(), magic.size()) == 0;
  } catch (...) {
    return false;
  }
}

ScalableFileInfo read_scalable_file_info(const std::filesystem::path& path) {
  FileInput file(path);
  return ScalableFiles::info(file.input, false);
}

ScalableFileInfo verify_scalable_file(const std::filesystem::path& path) {
  FileInput file(path);
  return ScalableFiles::info(file.input, true);
}

}  // namespace scbf
