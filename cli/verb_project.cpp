// SPDX-License-Identifier: Apache-2.0
// scbf project: makes the bits of a filter, or of a bank of filters, for readers.
#include <fmt/format.h>
#include <sys/stat.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "describe.hpp"
#include "errors.hpp"
#include "filter_file.hpp"
#include "input.hpp"
#include "options.hpp"
#include "output.hpp"
#include "scbf/bloom_bank.hpp"
#include "scbf/bloom_filter.hpp"
#include "sizes.hpp"
#include "verbs.hpp"

namespace scbf::cli {

namespace {

struct ProjectOptions {
  std::string file, out;
  bool force = false, json = false, compress = false;
};

int save_bits(const ProjectOptions& options, const BloomBank& bits, const Destination& to) {
  to.write([&](Output& out) { write_filter(out, bits, {.compress = options.compress}); });
  if (options.json) {
    Json json{{"file", to.path()}, {"members", bits.size()}};
    describe_growth_of_bank(json, bits.growth());
    json["bytes"] = bits.bytes();
    print_json(json);
  } else {
    to.report(fmt::format("{}: the bits of {}; {} of rows\n", to.path(),
                          counted(bits.size(), "member"), human_bytes(bits.bytes())));
  }
  return kOk;
}

int save_bits(const ProjectOptions& options, const BloomFilter& bits, const Destination& to) {
  to.write([&](Output& out) { write_filter(out, bits, {.compress = options.compress}); });
  const std::uint64_t keys = keys_left(bits.keys_inserted(), bits.keys_removed());
  if (options.json) {
    Json json{{"file", to.path()}, {"keys", keys}, {"keys_in_filter", keys}, {"fill", bits.fill()}};
    describe_geometry(json, bits.geometry());
    json["bytes"] = bits.bytes();
    json["stages"] = bits.stages();
    print_json(json);
  } else {
    to.report(fmt::format("{}: the bits of {}, {}; fill {}\n", to.path(), counted(keys, "key"),
                          human_bytes(bits.bytes()), percent(bits.fill())));
  }
  return kOk;
}

int project(const ProjectOptions& options) {
  check_inputs(std::span(&options.file, 1));
  std::optional<PipedFilter> pipe;
  if (!S_ISREG(status_of(options.file).st_mode)) pipe.emplace(options.file);
  const bool bank = pipe ? pipe->is_bank() : is_bank_file(filter_path(options.file));
  using Replace = Destination::Rules::Replace;
  const Destination to("-o " + in_quotes(options.out), options.out,
                       {.replace = bank ? Replace::banks : Replace::filters,
                        .force = options.force,
                        .json = options.json,
                        .inputs = {options.file}});
  if (bank) {
    return save_bits(
        options,
        pipe ? pipe->read<BloomBank>() : open_bank_for_queries(options.file, {}, Opening::load),
        to);
  }
  return save_bits(options, pipe ? pipe->read<BloomFilter>() : load_as<BloomFilter>(options.file),
                   to);
}

}  // namespace

Run set_up_project(CommandLine& line) {
  auto options = std::make_shared<ProjectOptions>();
  line.positional("FILE", "The filter, or the file of a bank; - is standard input", options->file);
  line.option("-o,--output", "OUT",
              "The bits; replaced as a whole; - is standard output, and the report then "
              "goes to standard error",
              options->out, CommandLine::Need::required);
  line.flag("--force",
            "Replace OUT whatever it holds; by default only a filter is replaced (where FILE is a "
            "bank: only a bank)",
            options->force);
  add_compress_to(line, options->compress);
  line.flag("--json", "Print a report as JSON", options->json);
  line.footer(
      R"(Keeps one bit of each counter: is it 0? 'scbf query' gives the same answers, from a quarter of the
memory and of the file (in layout ranked, from about a half to seven eighths). Keys cannot be removed or
counted there: keep FILE for that. FILE is verified, and read in memory for the bits only. Of a bank likewise:
'scbf find' gives the same answers, and maps OUT unless it is compressed.

Examples:
  scbf project words.scbf -o words_bits.scbf
  scbf project words.scbf -o - | scbf query - candidates.txt
  scbf project logs.bank -o logs_bits.bank)");
  return [options] { return project(*options); };
}

}  // namespace scbf::cli
