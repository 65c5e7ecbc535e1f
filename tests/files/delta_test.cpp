// SPDX-License-Identifier: Apache-2.0
// Deltas: a reader who applies them one after another has the bits of the writer; any other order,
// history or damage is refused, and nothing is changed then.
#include "scbf/delta.hpp"

#include <atomic>
#include <bit>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "files/file_test_support.hpp"
#include "support/setups.hpp"
#include "support/temporary_folder.hpp"

namespace scbf::test::delta_test {
namespace {

using scbf_test::random_keys;
using scbf_test::same_words;
using scbf_test::words_of;

std::vector<Growth> growths() {
  return {Growth::one(Geometry::split_block(1, 200)),
          Growth::one(Geometry::split_block(2, 200)),
          Growth::one(Geometry::split_block(1, 140'000)),  // three chunks of bits
          Growth::one(Geometry::split(7, 5000)),
          Growth::one(Geometry::split(5, 2'500'001)),
          Growth::one(Geometry::ranked(82, 400, 8)),
          Growth::one(Geometry::ranked(101, 60'000, 900)),  // chunks end within blocks
          Growth::tightening(300, 0.05),
          Growth::tightening(200, 0.05, Layout::split),
          Growth::tightening(200, 0.05, Layout::ranked),
          Growth::fixed(Geometry::split_block(1, 40), 200)};
}

Delta carried(const Delta& delta) {
  const Delta read = Delta::read(source_of(to_bytes(delta), 777));
  EXPECT_EQ(to_bytes(read), to_bytes(delta));
  EXPECT_EQ(read.since(), delta.since());
  EXPECT_EQ(read.epoch(), delta.epoch());
  EXPECT_EQ(read.changes(), delta.changes());
  return read;
}

::testing::AssertionResult same_bits(const BloomFilter& got, const BloomFilter& want) {
  if (got.stages() != want.stages()) return ::testing::AssertionFailure() << got.stages();
  for (std::size_t s = 0; s < want.stages(); ++s) {
    const auto same = same_words(words_of(got.stage(s)), words_of(want.stage(s)));
    if (!same) return ::testing::AssertionFailure() << "stage " << s << ": " << same.message();
  }
  if (!(got == want)) return ::testing::AssertionFailure() << "shape, growth or seed differ";
  if (got.keys_inserted() != want.keys_inserted() || got.keys_removed() != want.keys_removed() ||
      got.metadata() != want.metadata() || got.nonzero() != want.nonzero()) {
    return ::testing::AssertionFailure() << "numbers or metadata differ";
  }
  return ::testing::AssertionSuccess();
}

/// How many bits of equal shape differ.
std::uint64_t differences(const BloomFilter& a, const BloomFilter& b) {
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < b.stages(); ++s) {
    const auto now = words_of(b.stage(s));
    const auto before = s < a.stages() ? words_of(a.stage(s)) : decltype(now)(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      sum += static_cast<unsigned>(std::popcount(now[i] ^ before[i]));
    }
  }
  return sum;
}

/// A writer with keys that come and go, and its bits as they are published.
struct Writer {
  explicit Writer(const Growth& growth) : counters(growth, {.seed = 99}), published(counters) {}

  void change(std::size_t keys) {
    const auto fresh = random_keys(keys, ++round);
    counters.insert(fresh);
    if (round > 1) {
      counters.remove(std::span(last).first(last.size() / 2));
    }
    counters.set_metadata("round " + std::to_string(round));
    last = fresh;
  }
  Delta publish() { return published.advance(counters); }

  Filter counters;
  BloomFilter published;
  std::vector<std::uint64_t> last = {};
  std::uint64_t round = 0;
};

TEST(Delta, LeadsReadersToTheBitsOfTheWriter) {
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    Writer writer(growth);
    writer.change(100);
    EXPECT_FALSE(writer.published.epoch());
    const Delta first = carried(writer.publish());
    EXPECT_TRUE(first.whole());
    EXPECT_EQ(first.epoch().number, 1u);
    EXPECT_EQ(first.changes(), writer.published.nonzero());
    Replica replica(first);
    BloomFilter late(growth);  // takes whatever it was before
    late.apply(first);
    EXPECT_TRUE(same_bits(late, writer.published));
    for (std::uint64_t number = 2; number <= 8; ++number) {
      const BloomFilter before = writer.published;
      writer.change(number == 3 ? 0 : 30 * number);
      const Delta delta = carried(writer.publish());
      EXPECT_TRUE(same_bits(writer.published, BloomFilter(writer.counters)));
      EXPECT_EQ(delta.epoch(), writer.published.epoch());
      EXPECT_EQ(delta.epoch().number, number);
      if (!delta.whole()) {
        EXPECT_EQ(delta.since(), before.epoch());
        EXPECT_EQ(delta.changes(), differences(before, writer.published));
      }
      replica.apply(delta);
      late.apply(delta);
      EXPECT_EQ(replica.epoch(), delta.epoch());
      EXPECT_TRUE(same_bits(replica.snapshot(), writer.published));
      EXPECT_TRUE(same_bits(late, writer.published));
      for (const std::uint64_t key : writer.last) ASSERT_TRUE(replica.contains(key));
    }
    EXPECT_GT(writer.counters.stages(), growth.policy() == Growth::Policy::one ? 0u : 1u);
  }
}

/// Chunks of bits end within blocks of counters, all of which have keys.
TEST(Delta, OfFullRankedFiltersIsRight) {
  Writer writer(Growth::one(Geometry::ranked(101, 60'000, 900)));
  BloomFilter reader(writer.published);
  writer.counters.insert(random_keys(700'000, 5));
  reader.apply(carried(writer.publish()));
  EXPECT_TRUE(same_bits(reader, BloomFilter(writer.counters)));
}

TEST(Delta, ComesFromFiltersOfBitsToo) {
  BloomFilter today(10'000, 0.01), published = today, reader = today;
  today.insert(random_keys(9000, 1));
  reader.apply(published.advance(today));
  today.insert(random_keys(20, 2));
  const Delta delta = published.advance(today);
  EXPECT_FALSE(delta.whole());
  reader.apply(delta);
  EXPECT_TRUE(same_bits(reader, today));
  // Nothing changed: an epoch without changes.
  const Delta nothing = published.advance(published);
  EXPECT_EQ(nothing.changes(), 0u);
  EXPECT_EQ(nothing.epoch().number, 3u);
  EXPECT_LT(nothing.message().size(), 300u);
  reader.apply(nothing);
  EXPECT_EQ(reader.epoch(), published.epoch());
}

TEST(Delta, IsShortWhereLittleChanges) {
  Filter counters(1'000'000, 0.01);
  counters.insert(random_keys(1'000'000, 1));
  BloomFilter published(counters);
  published.advance(counters);
  counters.insert(random_keys(100, 2));
  const Delta few = published.advance(counters);
  EXPECT_LT(few.message().size(), 100u * 8);
  counters.insert(random_keys(10'000, 3));
  const Delta more = published.advance(counters);
  EXPECT_LT(more.message().size(), 10'000u * 5);
  EXPECT_GT(more.changes(), 20'000u);
}

TEST(Delta, IsWholeWhereThatIsShorter) {
  Filter counters(10'000, 0.01);
  counters.insert(random_keys(10'000, 1));
  BloomFilter published(counters), reader(counters);
  reader.apply(published.advance(counters));
  // Everything goes: one lane in two changes, and nothing is left to tell.
  counters.remove(random_keys(10'000, 1));
  const Delta empty = published.advance(counters);
  EXPECT_TRUE(empty.whole());
  EXPECT_LT(empty.message().size(), 300u);
  reader.apply(empty);
  EXPECT_EQ(reader.nonzero(), 0u);
  EXPECT_TRUE(same_bits(reader, published));
  // Other shapes, and another seed.
  for (const Filter& other : {Filter(5000, 0.001), Filter(10'000, 0.01, {.seed = 4})}) {
    const std::uint64_t before = published.epoch().number;
    const Delta whole = published.advance(other);
    EXPECT_TRUE(whole.whole());
    EXPECT_EQ(whole.epoch().number, before + 1);
    reader.apply(carried(whole));
    EXPECT_TRUE(same_bits(reader, BloomFilter(other)));
  }
  Filter growing(Growth::tightening(100, 0.01));
  growing.insert(random_keys(1000, 1));
  reader.apply(carried(published.advance(growing)));
  EXPECT_TRUE(same_bits(reader, BloomFilter(growing)));
  // A filter that was cleared has fewer stages.
  growing.clear();
  const Delta cleared = published.advance(growing);
  EXPECT_TRUE(cleared.whole());
  reader.apply(cleared);
  EXPECT_EQ(reader.stages(), 1u);
  EXPECT_TRUE(same_bits(reader, published));
}

TEST(Delta, OutOfOrderIsRefusedAndChangesNothing) {
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    Writer writer(growth);
    std::vector<Delta> deltas;
    for (int i = 0; i < 4; ++i) {
      writer.change(40);
      deltas.push_back(writer.publish());
    }
    if (deltas[2].whole() || deltas[3].whole()) continue;  // tiny filters
    BloomFilter reader(growth);
    reader.apply(deltas[0]);
    const BloomFilter before = reader;
    const auto refuses = [&](const Delta& delta, const char* why) {
      EXPECT_THROW_WITH(reader.apply(delta), Incompatible, why);
      EXPECT_TRUE(same_bits(reader, before));
      EXPECT_EQ(reader.epoch(), before.epoch());
    };
    refuses(deltas[2], "the filter has epoch 1, the delta begins at 2");
    refuses(deltas[3], "the filter has epoch 1, the delta begins at 3");
    refuses(deltas[0], "the filter has epoch 1, and the whole filter is of epoch 1");
    EXPECT_THROW_WITH(Replica{deltas[2]}, Incompatible, "a replica begins with a whole filter");
    // A history that begins alike and then parts.
    Writer other(growth);
    other.change(40);
    other.publish();
    other.change(41);
    other.publish();
    other.change(40);
    const Delta strange = other.publish();
    reader.apply(deltas[1]);
    if (!strange.whole()) {
      EXPECT_THROW_WITH(reader.apply(strange), Incompatible, "but of another history");
    }
    reader.apply(deltas[2]);
    EXPECT_THROW_WITH(reader.apply(deltas[1]), Incompatible,
                      "the filter has epoch 3, the delta begins at 1");
    reader.apply(deltas[3]);
    EXPECT_TRUE(same_bits(reader, writer.published));
  }
}

// Filters that are empty when they publish for the first time have the same history.
TEST(Delta, OfAFilterOfAnotherSeedIsRefusedWithBothSeeds) {
  const Growth growth = Growth::one(Geometry::split_block(1, 2000));
  Filter writer(growth, {.seed = 7});
  BloomFilter published(writer), reader{Filter(growth)};
  published.advance(writer);
  reader.advance(Filter(growth));
  writer.insert(std::uint64_t{1});
  const Delta delta = published.advance(writer);
  ASSERT_FALSE(delta.whole());
  EXPECT_THROW_WITH(reader.apply(delta), Incompatible, "with seed 7 and 1 stage: this one is");
  EXPECT_THROW_WITH(reader.apply(delta), Incompatible, "with seed 0 and 1 stage, of epoch 1, too");
}

TEST(Delta, AFilterThatIsChangedOtherwiseLosesItsEpoch) {
  const Geometry geometry = Geometry::split_block(1, 2000);
  Writer writer(Growth::one(geometry));
  writer.counters.insert(random_keys(10'000, 77));
  writer.change(10);
  const Delta first = writer.publish();
  writer.change(10);
  const Delta second = writer.publish();
  ASSERT_FALSE(second.whole());
  BloomFilter other(writer.counters);
  const std::vector<std::function<void(BloomFilter&)>> changes = {
      [](BloomFilter& f) { f.insert(std::uint64_t{1}); },
      [](BloomFilter& f) { f.insert("one"); },
      [](BloomFilter& f) { f.insert(random_keys(3, 1)); },
      [&](BloomFilter& f) { f.merge(other); },
      [&](BloomFilter& f) { f.intersect(other); },
      [](BloomFilter& f) { f.clear(); },
      [](BloomFilter& f) { f.bulk().insert(random_keys(3, 1)); }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    BloomFilter reader(geometry);
    reader.apply(first);
    EXPECT_TRUE(reader.epoch());
    changes[i](reader);
    EXPECT_FALSE(reader.epoch());
    EXPECT_THROW_WITH(reader.apply(second), Incompatible,
                      "the filter has no epoch, the delta begins at 1");
    reader.apply(first);  // whole
    reader.apply(second);
    EXPECT_TRUE(same_bits(reader, writer.published));
  }
  // An inserter that goes on after a delta.
  BloomFilter reader(geometry);
  BulkInserter bulk = reader.bulk();
  bulk.finish();
  reader.apply(first);
  bulk.insert(random_keys(3, 1));
  bulk.finish();
  EXPECT_FALSE(reader.epoch());
  // What fails, or does nothing, keeps it.
  reader = writer.published;
  const Epoch kept = reader.epoch();
  ASSERT_TRUE(kept);
  BloomFilter strange(Geometry::split_block(3, 5));
  EXPECT_THROW(reader.merge(strange), Incompatible);
  EXPECT_THROW(reader.intersect(strange), Incompatible);
  reader.insert(std::vector<std::uint64_t>{});
  reader.bulk().finish();
  const std::vector<std::uint64_t> nulls(9);
  const std::vector<std::byte> no_key_is_valid(2);
  reader.insert(KeyBatch(nulls).with_validity(no_key_is_valid));
  reader.bulk().insert(KeyBatch(nulls).with_validity(no_key_is_valid));
  EXPECT_EQ(reader.epoch(), kept);
  // What does not change bits keeps it: copies, moves, metadata, lookups.
  reader.set_metadata("mine");
  reader.to("scalar");
  EXPECT_TRUE(reader.contains(writer.last[0]));
  const BloomFilter moved = std::move(reader);
  EXPECT_EQ(moved.epoch(), writer.published.epoch());
}

TEST(Delta, EpochsAreKeptInFiles) {
  const TemporaryFolder folder;
  const fs::path path = folder / "bits.scbf", delta_path = folder / "1.delta";
  for (const Growth& growth : growths()) {
    SCOPED_TRACE(growth.describe());
    Writer writer(growth);
    writer.change(100);
    writer.publish();
    writer.published.save(path);
    EXPECT_EQ(verify_file(path).version, 2u);
    EXPECT_EQ(verify_file(path).epoch, writer.published.epoch());
    writer.change(40);
    const Delta delta = writer.publish();
    delta.save(delta_path);
    EXPECT_EQ(read_bytes(delta_path), to_bytes(delta));
    const BloomFilter mapped = BloomFilter::map(path);
    EXPECT_EQ(mapped.epoch().number, 1u);
    for (BloomFilter reader : {BloomFilter::load(path), BloomFilter(mapped)}) {
      reader.apply(Delta::load(delta_path));
      EXPECT_TRUE(same_bits(reader, writer.published));
      reader.save(path, {.compress = true});
      EXPECT_EQ(BloomFilter::load(path).epoch(), reader.epoch());
      writer.published.save(path);
      EXPECT_EQ(Delta::load(path).epoch(), reader.epoch());  // a file of bits is a whole delta
    }
    BloomFilter read_only = BloomFilter::map(path);
    EXPECT_THROW(read_only.apply(delta), ReadOnly);
    EXPECT_THROW(read_only.advance(writer.counters), ReadOnly);
    for (const FileInfo& info : {verify_file(delta_path), read_file_info(delta_path)}) {
      EXPECT_EQ(info.is_delta, !delta.whole());
      EXPECT_EQ(info.epoch, delta.epoch());
      EXPECT_EQ(info.since, delta.since());
      EXPECT_EQ(info.cell(), Cell::bit);
      EXPECT_EQ(info.file_bytes, delta.message().size());
    }
    if (delta.whole()) continue;
    const Bytes bytes = to_bytes(delta);
    EXPECT_THROW_WITH(BloomFilter::load(delta_path), Incompatible, "a delta, from epoch 1 to 2");
    EXPECT_THROW_WITH(BloomFilter::map(delta_path), Incompatible, "a delta, from epoch 1 to 2");
    EXPECT_THROW_WITH(Filter::read(source_of(bytes)), Incompatible, "a delta, from epoch 1 to 2");
  }
  const Filter counters = sample(Geometry::split_block(1, 10));
  counters.save(path);
  EXPECT_THROW_WITH(Delta::load(path), WrongKind,
                    "a filter of counters, and no delta: load it as a Filter");
  BloomFilter(counters).save(path);
  EXPECT_THROW_WITH(Delta::load(path), WrongKind,
                    "a filter of bits without an epoch, and no delta: load it as a BloomFilter");
}

TEST(Delta, DamageIsFoundInEveryByte) {
  for (const Growth& growth :
       {Growth::one(Geometry::split_block(1, 2000)), Growth::tightening(3000, 0.05)}) {
    Writer writer(growth);
    writer.change(2000);
    writer.publish();
    writer.change(20);
    const Delta delta = writer.publish();
    ASSERT_FALSE(delta.whole());
    const Bytes good = to_bytes(delta);
    for (std::size_t at = 0; at < good.size(); ++at) {
      Bytes bad = good;
      bad[at] ^= std::byte{static_cast<unsigned char>(1u << at % 8)};
      EXPECT_THROW(Delta::read(source_of(bad)), CorruptFile) << "byte " << at;
      bad.resize(at);
      EXPECT_THROW(Delta::read(source_of(bad)), CorruptFile) << "cut at " << at;
    }
  }
}

TEST(Delta, AHugeFileIsRefusedByItsBeginning) {
  const scbf_test::TemporaryFolder folder;
  const auto path = folder / "huge";
  std::ofstream(path) << "no delta";
  std::filesystem::resize_file(path, std::uint64_t{1} << 42);  // takes no room on the disk
  EXPECT_THROW_WITH(Delta::load(path), CorruptFile, "huge");
}

/// Corrects the checksums of a message of one stage and one chunk.
void sign_message(Bytes& bytes) {
  const auto chunk = get<std::uint64_t>(bytes, 80);
  sign_header(bytes, chunk);
  Bytes covered = bytes;
  covered.erase(covered.begin(), covered.begin() + static_cast<std::ptrdiff_t>(chunk));
  covered.erase(covered.begin() + 8, covered.begin() + 16);
  const auto seed = get<std::uint64_t>(bytes, kChecksumAt);
  put(bytes, chunk + 8, XXH3_64bits_withSeed(covered.data(), covered.size(), seed));
}

TEST(Delta, HeadersThatItsChangesContradictAreRefused) {
  Writer writer(Growth::one(Geometry::split_block(1, 2000)));
  writer.change(2000);
  writer.publish();
  writer.change(20);
  const Bytes good = to_bytes(writer.publish());
  const auto refuses = [&](std::size_t at, const char* why) {
    Bytes bad = good;
    bad[at] ^= std::byte{1};
    sign_message(bad);
    EXPECT_THROW_WITH(Delta::read(source_of(bad)), CorruptFile, why);
  };
  refuses(144, "its changes lead to");
  refuses(160, "its changes lead to");
  refuses(168, "changed bits: the header says");
  // A delta that begins nowhere would be taken for a whole filter.
  Bytes nowhere = good;
  put(nowhere, 152, std::uint64_t{0});
  put(nowhere, 160, std::uint64_t{0});
  sign_message(nowhere);
  EXPECT_THROW_WITH(Delta::read(source_of(nowhere)), CorruptFile, "since epoch 0");
  Bytes late = good;
  put(late, 136, ~std::uint64_t{0});
  sign_message(late);
  EXPECT_THROW_WITH(Delta::read(source_of(late)), CorruptFile, "must be at most 2^62");
  Bytes same = good;
  sign_message(same);
  EXPECT_EQ(same, good);
}

TEST(Delta, OneThatHasBeenMovedFromIsRefused) {
  Writer writer(Growth::one(Geometry::split_block(1, 20)));
  Delta delta = writer.publish();
  const Delta moved = std::move(delta);
  EXPECT_THROW_WITH(writer.published.apply(delta), InvalidArgument, "moved from");
  EXPECT_THROW_WITH(Replica{delta}, InvalidArgument, "moved from");
  Replica replica(moved);
  EXPECT_THROW_WITH(replica.apply(delta), InvalidArgument, "moved from");
  const TemporaryFolder folder;
  moved.save(folder / "d");
  const Bytes good = read_bytes(folder / "d");
  EXPECT_THROW_WITH(delta.save(folder / "d"), InvalidArgument, "moved from");
  EXPECT_EQ(read_bytes(folder / "d"), good);
  EXPECT_EQ(moved.epoch().number, 1u);
  delta = moved;
  Delta& itself = delta;
  delta = std::move(itself);
  EXPECT_TRUE(std::ranges::equal(delta.message(), moved.message())) << "moved to itself";
}

/// A key that leaves one stage and enters another is found whenever it is asked for.
TEST(Replica, FindsKeysThatChangeTheirStage) {
  Filter counters(Growth::fixed(Geometry::split_block(1, 2000), 9));
  counters.insert(random_keys(9000, 1));
  const std::uint64_t key = 4'711;
  counters.insert(key);
  BloomFilter published(counters);
  Replica replica(published.advance(counters));
  counters.insert(random_keys(20'000, 2));  // fills the first stages
  counters.remove(key);
  counters.insert(key);  // now into a later one
  const Delta delta = published.advance(counters);
  ASSERT_GT(counters.stages(), 1u);
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> missed = 0, asked = 0;
  std::thread reader([&] {
    while (!done) {
      missed += !replica.contains(key);
      ++asked;
    }
  });
  while (asked == 0) std::this_thread::yield();
  replica.apply(delta);
  done = true;
  reader.join();
  EXPECT_EQ(missed, 0u);
}

/// Not for the thread sanitizer: lookups read words as vectors while a delta changes these, which
/// C++ has no words for (cpu_simd/kernels.cpp). Keys that are in the filter in every epoch are
/// found whenever they are asked for.
TEST(Replica, AnswersWhileDeltasAreApplied) {
  for (const Growth& growth :
       {Growth::one(Geometry::split_block(1, 3000)), Growth::one(Geometry::split_block(2, 3000)),
        Growth::one(Geometry::split(7, 50'000)), Growth::tightening(2000, 0.05)}) {
    SCOPED_TRACE(growth.describe());
    const auto always = random_keys(500, 1);
    Filter counters(growth);
    counters.insert(always);
    BloomFilter published(counters);
    Replica replica(published.advance(counters));
    std::atomic<bool> done = false;
    std::atomic<std::uint64_t> missed = 0, asked = 0;
    std::vector<std::thread> readers;
    for (int t = 0; t < 2; ++t) {
      readers.emplace_back([&, t] {
        std::vector<std::uint8_t> out(always.size());
        while (!done) {
          const BatchOptions options{.threads = 1,
                                     .path = t == 0 ? Path::direct : Path::partitioned};
          missed += always.size() - replica.contains(always, out, options).hits;
          missed += always.size() - replica.count_present(always, options).hits;
          for (std::size_t i = 0; i < 50; ++i) missed += !replica.contains(always[i]);
          ++asked;
        }
      });
    }
    for (std::uint64_t round = 2; round < 60 || asked < 20; ++round) {
      counters.insert(random_keys(200, round));
      if (round > 2) counters.remove(random_keys(200, round - 1));
      replica.apply(published.advance(counters));
    }
    done = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(missed, 0u);
    EXPECT_TRUE(same_bits(replica.snapshot(), published));
  }
}

}  // namespace
}  // namespace scbf::test::delta_test
