// SPDX-License-Identifier: Apache-2.0
// ScalableFilter: a filter that grows. Stages, each a Filter; a new one when all are full.
//
//   scbf::ScalableFilter filter(1'000'000, 0.01);   // starts there; the rate holds at any size
//   filter.insert(keys);
//
// Thread safety, batches and answers are as in Filter: a batch is the loop over its keys, also
// where stages fill up in the middle of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "scbf/filter.hpp"
#include "scbf/growth.hpp"

namespace scbf {

/// No stage has room and no further one can be had: d stages of the policy `fixed` are full, or
/// memory is short. Keys before processed() of the batch are in the filter, the others are not.
class FilterFull : public Error {
 public:
  FilterFull(const std::string& message, std::uint64_t processed, const InsertReport& done)
      : Error(message), processed_(processed), done_(done) {}
  /// Keys of the batch that were dealt with, nulls included: go on from this one.
  std::uint64_t processed() const noexcept { return processed_; }
  /// Of those, what was inserted.
  const InsertReport& done() const noexcept { return done_; }

 private:
  std::uint64_t processed_;
  InsertReport done_;
};

/// What became of a key that was to be removed.
enum class Removal : std::uint8_t {
  absent = 0,     ///< no stage claimed it
  removed = 1,    ///< from the one stage that claimed it
  ambiguous = 2,  ///< several claimed it: nothing changed, it is still there
};

struct ScalableRemoveReport {
  std::uint64_t removed = 0;
  std::uint64_t absent = 0;
  std::uint64_t ambiguous = 0;
  std::uint64_t nulls = 0;
};

struct StageStatistics {
  StageShape shape;
  Statistics counters;
};

struct ScalableStatistics {
  std::vector<StageStatistics> stages;  ///< oldest first
  std::uint64_t counters = 0, nonzero = 0, saturated = 0, bytes = 0;
  std::uint64_t keys_inserted = 0, keys_removed = 0;
  double estimated_keys = 0;   ///< of all stages; keys in several are counted in each
  double estimated_fpr = 0;    ///< of all stages together, from their fill
  double fpr_bound = 0;        ///< see ScalableFilter::fpr_bound
  double ambiguous_share = 0;  ///< expected, of keys inserted once; see ambiguous_share
};

/// A split counting Bloom filter in stages. Inserts go to the oldest stage that is not full, so
/// room that removal makes is used again and a steady turnover needs no growth. All stages have one
/// seed: a key is hashed once, and what it has in one stage says nothing of the others, which hold
/// other keys. Copyable (deep), movable.
class ScalableFilter {
 public:
  /// One empty stage. Throws what Filter's constructor throws.
  explicit ScalableFilter(const Growth& growth, const FilterOptions& options = {});
  /// Growth::tightening(first_capacity, fpr).
  ScalableFilter(std::uint64_t first_capacity, double fpr, const FilterOptions& options = {});

  const Growth& growth() const noexcept { return growth_; }
  std::uint64_t seed() const noexcept { return seed_; }
  const Backend& backend() const noexcept { return *backend_; }
  /// As Filter::to, all stages together: on failure none has moved.
  ScalableFilter& to(std::string_view backend);
  bool read_only() const noexcept;

  std::size_t stages() const noexcept { return stages_.size(); }
  /// Stage i, oldest first. Throws InvalidArgument past the last.
  const Filter& stage(std::size_t i) const;
  const StageShape& shape(std::size_t i) const;
  std::uint64_t bytes() const noexcept;  ///< counters of all stages
  std::uint64_t keys_inserted() const noexcept;
  std::uint64_t keys_removed() const noexcept;
  /// 1 − Π(1 − P_i) over the stages there are, full: never above growth().fpr(), unless stages were
  /// appended by merge.
  double fpr_bound() const;

  // ---- batches: as in Filter, temporary memory below --------------------------------------------

  /// Cost: as for one stage. A batch is cut where a stage fills, by at most ⌈log2 counters⌉ + 1
  /// cuts per stage. Throws FilterFull, which says what is in.
  InsertReport insert(const KeyBatch& keys, const BatchOptions& options = {});
  /// Keys are hashed once; the newest stage is asked first, keys found there go no further. Cost,
  /// in cache lines per key: of an absent key one in each stage, little more in further groups,
  /// which are touched only for keys that passed the first; of a key that is there those of its own
  /// stage and one in each newer one (stages of one geometry that lie in cache are asked up to
  /// eight at a time, the older ones of these included). On a CPU, a batch that has half a key per
  /// line of the first groups or more (of three stages over 4 MiB or more, `split_block`; of two,
  /// 1.25 keys per line) goes through all stages in the order of its hashes: then a stage
  /// costs what one in cache costs (docs/performance.md, "Several stages"). Of at most eight keys
  /// the lines in all stages are fetched together, of up to 128 those in the next ones ahead:
  /// several stages cost little more waiting than one ("Few keys" there). Temporary memory: 68 KiB
  /// of stack per thread; for such batches options.scratch_bytes, by default as much as all stages
  /// have, at most 1 GiB; on a device 13 bytes per key of at most 2^24 at a time.
  ContainsReport contains(const KeyBatch& keys, std::span<std::uint8_t> out,
                          const BatchOptions& options = {}) const;
  ContainsReport contains_bits(const KeyBatch& keys, std::span<std::uint8_t> bits,
                               const BatchOptions& options = {}) const;
  ContainsReport find(const KeyBatch& keys, std::span<std::uint64_t> indices,
                      const BatchOptions& options = {}) const;
  /// Removes keys one after another in batch order, each from the one stage that claims it at its
  /// turn. If several do, one of them may do so by a false positive, and taking the key from that
  /// one would damage others: nothing is changed, the key stays. verdicts[i] is a Removal; null
  /// keys are `absent`. `verdicts` may be empty, else verdicts.size() == keys.size(). Cost: all
  /// stages are asked; with more than one stage on one thread.
  ScalableRemoveReport remove(const KeyBatch& keys, std::span<std::uint8_t> verdicts = {},
                              const BatchOptions& options = {});
  /// out[i] = the sum over the stages of the smallest counter of keys[i], at most 15: an upper
  /// bound on how often it is in the filter, 15 meaning 15 or more.
  CountReport count(const KeyBatch& keys, std::span<std::uint8_t> out,
                    const BatchOptions& options = {}) const;

  void insert(std::uint64_t key);
  void insert(std::string_view key);
  bool contains(std::uint64_t key) const;
  bool contains(std::string_view key) const;
  Removal remove(std::uint64_t key);
  Removal remove(std::string_view key);
  unsigned count(std::uint64_t key) const;
  unsigned count(std::string_view key) const;

  // ---- whole filters ----------------------------------------------------------------------------

  /// Adds the keys of another filter: each of its stages to the first one of equal shape in which
  /// both together are not too full, else as a stage of its own, which brings its share of the rate
  /// with it. Throws Incompatible, changing nothing, if the seeds differ or there would be more
  /// than growth().most_stages(). Temporary memory: a copy of this filter.
  void merge(const ScalableFilter& other, const BatchOptions& options = {});
  /// The inverse: each stage of the other filter from the one stage that contains it. Throws
  /// Incompatible, changing nothing, if there is none, or several that are not equal.
  SubtractReport subtract(const ScalableFilter& other, const BatchOptions& options = {});
  /// One empty stage again.
  void clear();
  /// Compares seed, growth, shapes and counters.
  friend bool operator==(const ScalableFilter& a, const ScalableFilter& b);

  /// Cost: one pass over the counters.
  ScalableStatistics statistics(const BatchOptions& options = {}) const;

  /// As Filter::set_metadata.
  void set_metadata(std::string metadata);
  const std::string& metadata() const noexcept { return metadata_; }

  // ---- files: docs/file_format.md, "Containers"
  // ---------------------------------------------------

  /// As Filter::save, load, map, write and read; all stages in one file.
  void save(const std::filesystem::path& path) const;
  static ScalableFilter load(const std::filesystem::path& path, const FilterOptions& options = {});
  static ScalableFilter map(const std::filesystem::path& path, const FilterOptions& options = {});
  void write(const ByteSink& sink) const;
  static ScalableFilter read(const ByteSource& source, const FilterOptions& options = {});

 private:
  struct ForFiles {};
  ScalableFilter(ForFiles, const Growth& growth, std::uint64_t seed, const Backend& backend)
      : growth_(growth), seed_(seed), backend_(&backend) {}
  friend struct ScalableFiles;   // not installed
  friend struct ScalableAccess;  // likewise
  struct Stage {
    Filter filter;
    StageShape shape;
    std::uint32_t index;        ///< in growth_; kForeign for what merge brought from elsewhere
    std::uint64_t at_most = 0;  ///< non-zero counters: an upper bound that costs nothing
  };
  static constexpr std::uint32_t kForeign = 0xFFFF'FFFFu;
  struct OwnStages;
  struct NewestFirst;

  void check_writable() const;
  Stage make_stage(std::uint32_t index) const;
  std::uint32_t next_index() const noexcept;

  Growth growth_;
  std::uint64_t seed_;
  const Backend* backend_;
  std::vector<Stage> stages_;  ///< oldest first; never empty
  std::string metadata_;
};

/// What the header of a container says, and those of its stages.
struct ScalableFileInfo {
  std::uint32_t version;
  Growth growth;
  std::uint64_t seed;
  struct Stage {
    std::uint64_t offset;  ///< in the file: there it is a filter file of its own
    StageShape shape;
    FileInfo filter;
  };
  std::vector<Stage> stages;
  std::uint64_t file_bytes;
  std::string metadata;
};

/// Does the file begin as a container does? False for what cannot be read.
bool is_scalable_file(const std::filesystem::path& path) noexcept;
/// Reads and verifies the headers only. Throws IoError or CorruptFile.
ScalableFileInfo read_scalable_file_info(const std::filesystem::path& path);
/// Reads and verifies everything, in bounded memory. Throws IoError or CorruptFile.
ScalableFileInfo verify_scalable_file(const std::filesystem::path& path);

}  // namespace scbf
