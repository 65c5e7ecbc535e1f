// SPDX-License-Identifier: Apache-2.0
// The table of backends: names, choice by name and by the environment, and the errors for backends
// that are not available.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "kit/unavailable_backend.hpp"
#include "scbf/filter.hpp"
#include "support/environment.hpp"
#include "support/setups.hpp"

namespace scbf_test::backend_table_test {
namespace {

using scbf::BackendUnavailable;
using scbf::find_backend;
using scbf_test::BackendVariable;

TEST(BackendTable, NamesAreUniqueAndEachIsDescribed) {
  std::set<std::string_view> names;
  for (const scbf::Backend* backend : scbf::backends()) {
    ASSERT_NE(backend, nullptr);
    EXPECT_TRUE(names.insert(backend->name()).second) << backend->name();
    EXPECT_FALSE(backend->description().empty()) << backend->name();
    if (backend->unavailable_reason().empty()) {
      EXPECT_FALSE(backend->target().empty()) << backend->name();
    }
  }
  EXPECT_TRUE(names.contains("scalar"));
  EXPECT_TRUE(names.contains("simd"));
  EXPECT_TRUE(names.contains("cuda"));  // listed even where it cannot run, to say why
}

TEST(BackendTable, WithoutCudaItSaysHowToGetIt) {
#if SCBF_WITH_CUDA
  GTEST_SKIP() << "this library was built with CUDA";
#endif
  SCBF_EXPECT_THROW(find_backend("cuda"), BackendUnavailable, "built without CUDA");
  SCBF_EXPECT_THROW(find_backend("cuda"), BackendUnavailable, "SCBF_CUDA");
  const BackendVariable variable("cuda");
  SCBF_EXPECT_THROW(find_backend(), BackendUnavailable, "SCBF_BACKEND");
}

TEST(BackendTable, AnUnavailableBackendRefusesEveryOperation) {
  const scbf::UnavailableBackend absent("abacus", "beads", "wood", "the beads are lost");
  EXPECT_EQ(absent.name(), "abacus");
  EXPECT_EQ(absent.description(), "beads");
  EXPECT_EQ(absent.target(), "wood");
  EXPECT_EQ(absent.unavailable_reason(), "the beads are lost");
  std::array<std::uint64_t, 8> words{};
  std::array<std::uint8_t, 1> out{7};
  const scbf::CounterView view{scbf::Geometry::split_block(1, 1), 0, words.data()};
  const scbf::ConstCounterView read{view.geometry, 0, words.data()};
  const std::vector<std::uint64_t> keys(1, 3);
  scbf::RemovalChange change;
  const auto refuses = [](auto operation) {
    SCBF_EXPECT_THROW(operation(), BackendUnavailable, "abacus");
    SCBF_EXPECT_THROW(operation(), BackendUnavailable, "the beads are lost");
  };
  refuses([&] { absent.allocate(8); });
  refuses([&] { absent.insert(view, keys, {}); });
  refuses([&] { absent.contains({&read, 1}, keys, out.data(), {}); });
  refuses([&] { absent.count_present({&read, 1}, keys, {}); });
  refuses([&] { absent.remove({&view, 1}, keys, out.data(), {&change, 1}, {}); });
  refuses([&] { absent.count({&read, 1}, keys, out.data(), {}); });
  refuses([&] { absent.merge(view, read, {}); });
  refuses([&] { absent.check_subtract(read, read, {}); });
  refuses([&] { absent.subtract(view, read, {}); });
  refuses([&] { absent.histograms(read, {}); });
  EXPECT_EQ(words, (std::array<std::uint64_t, 8>{}));
  EXPECT_EQ(out[0], 7);
}

TEST(BackendTable, EachIsComparedWithTheModelUnderOneOfItsNames) {
  std::set<std::string_view> compared;
  for (const scbf::Backend* backend : scbf_test::backends_to_compare()) {
    compared.insert(backend->name());
  }
  const std::string best = "simd:" + std::string(find_backend("simd").target());
  EXPECT_TRUE(compared.contains(best)) << best;
  for (const scbf::Backend* backend : scbf_test::available_backends()) {
    const bool excepted = backend->name() == "scalar" || backend->name() == "simd";
    EXPECT_NE(compared.contains(backend->name()), excepted) << backend->name();
  }
}

TEST(BackendTable, AvailableOnesAreFoundAndOthersSayWhyNot) {
  for (const scbf::Backend* backend : scbf::backends()) {
    const std::string reason = backend->unavailable_reason();
    if (reason.empty()) {
      EXPECT_EQ(&find_backend(backend->name()), backend);
    } else {
      SCBF_EXPECT_THROW(find_backend(backend->name()), BackendUnavailable, reason);
      SCBF_EXPECT_THROW(find_backend(backend->name()), BackendUnavailable, backend->name());
    }
  }
}

TEST(BackendTable, AutoIsTheVariableOrTheBest) {
  {
    const BackendVariable unset(nullptr);
    EXPECT_EQ(find_backend().name(), "simd");
    EXPECT_EQ(find_backend("auto").name(), "simd");
    EXPECT_EQ(find_backend("auto").memory(), scbf::kHostMemory);
  }
  {
    const BackendVariable empty("");
    EXPECT_EQ(find_backend().name(), "simd");
  }
  {
    const BackendVariable scalar("scalar");
    EXPECT_EQ(find_backend().name(), "scalar");
    EXPECT_EQ(scbf::Filter(scbf::Geometry::split(1, 1)).backend().name(), "scalar");
    EXPECT_EQ(find_backend("simd").name(), "simd");  // a name beats the variable
  }
  {
    const BackendVariable automatic("auto");
    EXPECT_EQ(find_backend().name(), "simd");
  }
}

TEST(BackendTable, UnknownNamesAreAnsweredWithTheKnownOnes) {
  const BackendVariable unset(nullptr);
  SCBF_EXPECT_THROW(find_backend("cud"), BackendUnavailable, "'cud'");
  SCBF_EXPECT_THROW(find_backend("cud"), BackendUnavailable, "'scalar', 'simd'");
  SCBF_EXPECT_THROW(find_backend(""), BackendUnavailable, "''");
  SCBF_EXPECT_THROW(find_backend("SIMD"), BackendUnavailable, "'SIMD'");
  const BackendVariable wrong("nonsense");
  SCBF_EXPECT_THROW(find_backend(), BackendUnavailable, "SCBF_BACKEND");
  SCBF_EXPECT_THROW(find_backend(), BackendUnavailable, "'nonsense'");
  EXPECT_EQ(find_backend("scalar").name(), "scalar");
}

TEST(BackendTable, AFilterKeepsItsBackendWhenAnotherIsRefused) {
  scbf::Filter filter(scbf::Geometry::split(2, 10), {.backend = "scalar"});
  SCBF_EXPECT_THROW(filter.to("nonsense"), BackendUnavailable, "nonsense");
  EXPECT_EQ(filter.backend().name(), "scalar");
  EXPECT_EQ(filter.to("simd").backend().name(), "simd");
  EXPECT_THROW(scbf::Filter(scbf::Geometry::split(2, 10), {.backend = "x"}), BackendUnavailable);
}

}  // namespace
}  // namespace scbf_test::backend_table_test
