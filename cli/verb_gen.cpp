// SPDX-License-Identifier: Apache-2.0
// scbf gen: generates 64-bit keys for experiments, 8 little-endian bytes each.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "errors.hpp"
#include "key_stream.hpp"
#include "options.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "sizes.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

constexpr std::size_t kStepKeys = 1 << 14;

struct GenOptions {
  std::uint64_t keys = 0;
  StreamOptions stream;
  std::optional<double> exponent = {};
  std::optional<std::uint64_t> universe = {}, run_length = {};
  std::string out = "-";
  bool force = false;
  RunOptions run;
};

/// The stream, with the options of its kind. Throws UsageError if one of another kind is given.
StreamOptions stream_of(const GenOptions& options) {
  StreamOptions stream = options.stream;
  if ((options.exponent || options.universe) && stream.kind != StreamKind::zipf) {
    throw UsageError("gen: --exponent and --universe go with --kind zipf");
  }
  if (options.run_length && stream.kind != StreamKind::clustered) {
    throw UsageError("gen: --run goes with --kind clustered");
  }
  stream.exponent = options.exponent.value_or(stream.exponent);
  stream.universe = options.universe.value_or(stream.universe);
  stream.run = options.run_length.value_or(stream.run);
  return stream;
}

int generate(const GenOptions& options) {
  const StreamOptions of_kind = stream_of(options);
  const Destination to("gen -o " + in_quotes(options.out), options.out,
                       {.replace = Destination::Rules::Replace::nothing, .force = options.force});
  KeyStream stream(of_kind);
  Progress progress(options.run.progress, "generating", options.keys);
  std::vector<std::uint64_t> keys(kStepKeys);
  to.write([&](Output& out) {
    for (std::uint64_t done = 0; done < options.keys;) {
      const std::span<std::uint64_t> step(keys.data(),
                                          std::min<std::uint64_t>(kStepKeys, options.keys - done));
      stream.fill(step);
      out.write(std::string_view(reinterpret_cast<const char*>(step.data()), step.size_bytes()));
      done += step.size();
      progress.update(done, done);
    }
  });
  progress.finish(options.keys, options.keys);
  return kOk;
}

}  // namespace

Run set_up_gen(CommandLine& line) {
  auto options = std::make_shared<GenOptions>();
  GenOptions* const o = options.get();
  line.option(
      "--keys", "N", "How many: 1000, 1e8, 100M",
      [o](const std::string& t) { o->keys = parse_count("--keys", t, 0); },
      CommandLine::Need::required);
  line.option(
      "--kind", "KIND",
      "uniform (default; distinct), sequential, zipf (repeats) or clustered (runs of numbers)",
      [o](const std::string& t) {
        o->stream.kind = parse_word<StreamKind>("--kind", t,
                                                {{"uniform", StreamKind::uniform},
                                                 {"sequential", StreamKind::sequential},
                                                 {"zipf", StreamKind::zipf},
                                                 {"clustered", StreamKind::clustered}});
      });
  line.option("--seed", "S", "Default 0; another seed gives other keys",
              [o](const std::string& t) { o->stream.seed = parse_seed("--seed", t); });
  line.option("--exponent", "E",
              "zipf: probability of rank r is proportional to r^-exponent; default 1.2",
              [o](const std::string& t) { o->exponent = parse_real("--exponent", t, 0.01, 10); });
  line.option("--universe", "N", "zipf: number of distinct keys to draw from; default 100M",
              [o](const std::string& t) {
                o->universe = parse_count("--universe", t, 1, std::uint64_t{1} << 52);
              });
  line.option("--run", "N", "clustered: consecutive numbers in a run; default 1024",
              [o](const std::string& t) { o->run_length = parse_count("--run", t); });
  line.option("-o,--output", "FILE", "Default: standard output", options->out);
  line.flag("--force", "Replace FILE if it exists", options->force);
  options->run.add_progress_to(line);
  line.footer(
      R"(Writes 8 little-endian bytes per key, for --keys u64 of the other verbs. The same options give the
same keys.

Examples:
  scbf gen --keys 1e8 -o ids.u64
  scbf gen --keys 10M --kind zipf --exponent 1.1 --seed 7 | scbf count ids.scbf | head)");
  return [options] { return generate(*options); };
}

}  // namespace scbf::cli
