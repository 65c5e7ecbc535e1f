// SPDX-License-Identifier: Apache-2.0
// scbf index get and query: find rows by key or by column values, and report the routing.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "errors.hpp"
#include "index_options.hpp"
#include "index_verbs.hpp"
#include "key_reader.hpp"
#include "sizes.hpp"
#include "stopwatch.hpp"
#include "table_writer.hpp"

namespace scbf::cli {

namespace {

/// Values of a batch per call of SecondaryIndex::query.
constexpr std::size_t kBatchQueries = 1024;
/// Rows that have been found are held back at most this long, in seconds.
constexpr double kFlushSeconds = 0.1;

struct Form {
  TableFormat format = {'\t'};
  bool names = false;

  void add_to(CommandLine& line) {
    line.option("--separator", "SEP",
                "Between printed fields: tab (default), or , for CSV, or another character",
                [this](const std::string& text) { format = table_format_from_string(text); });
    line.flag("--names", "Print the names of the columns first", names);
  }
};

struct GetOptions {
  IndexTarget target;
  Form form;
  std::vector<std::string> keys;
  ListFile list;
};

int get(const GetOptions& options) {
  const std::vector<std::string> keys = keys_from(options.keys, options.list);
  const SecondaryIndex index = options.target.open_read_only();
  const std::vector<std::optional<Row>> rows = index.get(keys);
  const auto found = std::count_if(rows.begin(), rows.end(),
                                   [](const std::optional<Row>& row) { return row.has_value(); });
  Output out;
  if (options.target.json) {
    Json json = Json::array();
    for (const std::optional<Row>& row : rows) {
      json.push_back(row ? row_json(index.schema(), *row) : Json());
    }
    out.write_json(json);
  } else {
    TableWriter table(out, options.form.format);
    if (options.form.names) table.header(index.schema());
    for (const std::optional<Row>& row : rows) {
      if (row) table.row(*row);
    }
  }
  out.finish();
  return found > 0 || keys.empty() ? kOk : kNothingFound;
}

struct IndexQueryOptions {
  IndexTarget target;
  Form form;
  std::vector<std::string> conditions;
  ListFile batch;
  std::string column;
  Query query;
};

/// Sums over several queries.
struct Totals {
  std::uint64_t queries = 0, found = 0, rows = 0, everywhere = 0;
  std::uint64_t regions = 0, regions_asked = 0, regions_holding = 0;
  std::uint64_t requests = 0, broadcast = 0, holding = 0, false_requests = 0;
  double expected = 0;

  void add(const QueryAnswer& answer) {
    const RoutingReport& r = answer.routing;
    ++queries;
    found += answer.rows.empty() ? 0 : 1;
    rows += answer.rows.size();
    everywhere += r.everywhere() ? 1 : 0;
    regions += r.regions;
    regions_asked += r.regions_asked;
    regions_holding += r.regions_holding;
    requests += r.requests;
    broadcast += r.servers;
    holding += r.servers_holding;
    false_requests += r.false_requests();
    expected += r.expected_requests;
  }
};

Json routing_json(const RoutingReport& r) {
  Json json;
  json["requests"] = r.requests;
  json["broadcast_requests"] = r.servers;
  json["servers_holding"] = r.servers_holding;
  json["false_requests"] = r.false_requests();
  json["expected_requests"] = r.expected_requests > 0 ? Json(r.expected_requests) : Json();
  json["everywhere"] = r.everywhere();
  json["regions"] = r.regions;
  json["regions_asked"] = r.regions_asked;
  json["regions_holding"] = r.regions_holding;
  return json;
}

std::string routing_text(const RoutingReport& r, bool broadcast) {
  std::string text = fmt::format(
      "asked {} of {} (broadcast: {}), {} of {}; {}, {}", r.requests, counted(r.servers, "server"),
      r.servers, r.regions_asked, counted(r.regions, "region"),
      r.servers_holding == 1 ? "1 server holds it"
                             : fmt::format("{} servers hold it", r.servers_holding),
      counted(r.false_requests(), "false request"));
  if (!broadcast && r.expected_requests > 0) {
    text += fmt::format("; expected {:.1f}", r.expected_requests);
  }
  if (r.everywhere()) text += "\neach of them holds it: the index saves nothing here";
  return text;
}

int query_once(const IndexQueryOptions& options) {
  const SecondaryIndex index = options.target.open_read_only();
  Query query = options.query;
  for (const std::string& text : options.conditions) {
    Assignment condition = parse_assignment(index.schema(), text);
    if (condition.column == index.schema().key) {
      throw UsageError(fmt::format(
          "{}: {} is the key of the rows, and no column: 'scbf index get' finds rows by "
          "their keys, --from and --to ranges of them",
          in_quotes(text), in_quotes(condition.column)));
    }
    query.all_of.push_back({std::move(condition.column), std::move(condition.value)});
  }
  const Stopwatch watch;
  Output out;
  TableWriter table(out, options.form.format);
  if (options.form.names && !options.target.json) table.header(index.schema(), query.keys_only);
  if (options.target.json) out.write("{\n  \"rows\": [");
  std::uint64_t found = 0;
  std::string last;
  double flush_at = 0;
  const RoutingReport routing = index.query(query, [&](const Row& row) {
    if (options.target.json) {
      out.write(found == 0 ? "\n    " : ",\n    ");
      out.write(json_text(row_json(index.schema(), row)));
    } else {
      table.row(row);
    }
    ++found;
    if (found == query.limit) last = row.key;
    // Whoever reads the output need not wait for the whole answer.
    if (const double now = watch.seconds(); now >= flush_at) {
      out.flush();
      flush_at = now + kFlushSeconds;
    }
    return true;
  });
  const double seconds = watch.seconds();
  if (options.target.json) {
    Json json;
    json["found"] = found;
    json["more_after"] = last.empty() ? Json() : Json(last);
    json["routing"] = routing_json(routing);
    json["seconds"] = seconds;
    out.write(found == 0 ? "],\n" : "\n  ],\n");
    const std::string rest = json_text(json, 2);
    out.write(rest.substr(2));  // without the opening brace
    out.write('\n');
  }
  out.finish();
  if (!options.target.json) {
    note(routing_text(routing, query.broadcast));
    if (!last.empty()) {
      note(fmt::format("stopped at --limit {}: the next page begins --after {}", found,
                       in_shell(last)));
    }
  }
  return found == 0 ? kNothingFound : kOk;
}

/// Prints one value's answer.
void write_answer(const IndexQueryOptions& options, const TableSchema& schema,
                  const std::string& value, const QueryAnswer& answer, TableWriter& table,
                  Json& queries) {
  if (!options.target.json) {
    for (const Row& row : answer.rows) {
      table.field(value);
      table.row(row);
    }
    return;
  }
  Json json;
  json["value"] = value;
  json["found"] = answer.rows.size();
  json["routing"] = routing_json(answer.routing);
  json["rows"] = Json::array();
  for (const Row& row : answer.rows) json["rows"].push_back(row_json(schema, row));
  queries.push_back(std::move(json));
}

int query_batch(const IndexQueryOptions& options) {
  if (options.column.empty() || !options.conditions.empty()) {
    throw UsageError("--batch FILE goes with --column COL, and with no COL=VALUE");
  }
  const std::vector<std::string> values = keys_from({}, options.batch);
  const SecondaryIndex index = options.target.open_read_only();
  Output out;
  TableWriter table(out, options.form.format);
  Json answers = Json::array();
  Totals totals;
  double seconds = 0;
  if (options.form.names && !options.target.json) {
    table.field(options.column);
    table.header(index.schema(), options.query.keys_only);
  }
  for (std::size_t from = 0; from < values.size(); from += kBatchQueries) {
    const std::size_t to = std::min(values.size(), from + kBatchQueries);
    std::vector<Query> queries(to - from, options.query);
    for (std::size_t i = from; i < to; ++i) {
      queries[i - from].all_of.push_back({options.column, values[i]});
    }
    const Stopwatch watch;
    const std::vector<QueryAnswer> some = index.query(queries);
    seconds += watch.seconds();
    for (std::size_t i = from; i < to; ++i) {
      totals.add(some[i - from]);
      write_answer(options, index.schema(), values[i], some[i - from], table, answers);
    }
  }
  const double rate = per_second(totals.queries, seconds);
  if (options.target.json) {
    Json json;
    json["queries"] = totals.queries;
    json["found"] = totals.found;
    json["rows"] = totals.rows;
    json["requests"] = totals.requests;
    json["broadcast_requests"] = totals.broadcast;
    json["servers_holding"] = totals.holding;
    json["false_requests"] = totals.false_requests;
    json["expected_requests"] = totals.expected > 0 ? Json(totals.expected) : Json();
    json["everywhere"] = totals.everywhere;
    json["seconds"] = seconds;
    json["queries_per_second"] = rate;
    json["answers"] = std::move(answers);
    out.write_json(json);
  }
  out.finish();
  if (!options.target.json) {
    std::string text = fmt::format(
        "{}, {} of them found, {}; asked {} (broadcast: {}), {}; {} queries/s",
        counted(totals.queries, "value"), grouped(totals.found), counted(totals.rows, "row"),
        counted(totals.requests, "server"), grouped(totals.broadcast),
        counted(totals.false_requests, "false request"), human_rate(rate));
    if (!options.query.broadcast && totals.expected > 0) {
      text += fmt::format("; expected {:.1f} servers", totals.expected);
    }
    if (totals.everywhere > 0) {
      text += fmt::format(
          "\n{} on every server: an index can save nothing for them",
          totals.everywhere == 1 ? "1 value is" : grouped(totals.everywhere) + " values are");
    }
    note(text);
  }
  return totals.rows > 0 || values.empty() ? kOk : kNothingFound;
}

}  // namespace

Run set_up_index_get(CommandLine& line) {
  auto options = std::make_shared<GetOptions>();
  options->target.add_to(line, "Print an array as JSON, with null for each missing row");
  options->form.add_to(line);
  line.positionals("KEY", "Keys of rows", options->keys);
  options->list.add_to(line, "--from-file", "Keys from a file, one a line");
  line.footer(
      R"(Rows are printed in the order of the given keys. The exit code is 1 if none of them is found.

A tab, a line feed, a carriage return and a backslash within a field are printed as \t, \n, \r and \\, as
'index load' reads them. With --separator , fields are quoted as in CSV instead. In JSON, a string that is
not UTF-8 is an object with its bytes, {"bytes": [255, 0]}.

Examples:
  scbf index get packages.index bash coreutils
  scbf index get packages.index --from-file wanted.txt --names --separator ,)");
  return [options] { return get(*options); };
}

Run set_up_index_query(CommandLine& line) {
  auto options = std::make_shared<IndexQueryOptions>();
  IndexQueryOptions& o = *options;
  o.target.add_to(line, "Print rows and routing as JSON");
  o.form.add_to(line);
  line.positionals("COL=VALUE", "Values that the rows must have, all of them", o.conditions);
  line.option("--from", "KEY", "Only rows from this key on", o.query.from);
  line.option("--to", "KEY", "Only rows before this key", o.query.to);
  line.option("--after", "KEY", "Only rows after this key, such as the last one of a page before",
              o.query.after);
  line.option("--limit", "N", "Print at most N rows",
              [&o](const std::string& text) { o.query.limit = parse_count("--limit", text); });
  line.flag("--keys", "Print the keys only", o.query.keys_only);
  line.flag("--broadcast", "Ask every server, as if there were no filters; for comparisons",
            o.query.broadcast);
  o.batch.add_to(line, "--batch", "Query each line of a file; needs --column");
  line.option("--column", "COL", "The column for the values in --batch", o.column);
  line.footer(
      R"(Rows are printed in key order as they are found, and a report on the routing goes to standard error. The
exit code is 1 if no row is found. With --batch, each row begins with the value that found it.

A tab, a line feed, a carriage return and a backslash within a field are printed as \t, \n, \r and \\, as
'index load' reads them. With --separator , fields are quoted as in CSV instead. In JSON, a string that is
not UTF-8 is an object with its bytes, {"bytes": [255, 0]}.

Pages: --limit prints the first of them, and --after with the key of its last row the next one, until there
are fewer rows than the limit. A message names that key, and --json does ("more_after"). Nothing that is
written in between makes a row come twice, or makes one that stays be skipped. Give --after the key itself,
without escapes: bash and zsh write {"bytes": [255, 9]} as $'\xff\x09'. (No argument has zero bytes.)

Examples:
  scbf index query packages.index section=shells
  scbf index query packages.index depends=libc6 section=games --keys --limit 10
  scbf index query packages.index section=games --limit 100 --after xbill
  scbf index query packages.index --batch maintainers.txt --column maintainer --keys)");
  return [options] {
    if (!options->batch.file.empty()) return query_batch(*options);
    options->batch.check();
    if (!options->column.empty()) throw UsageError("--column goes with --batch FILE");
    if (options->conditions.empty()) throw UsageError("no COL=VALUE to ask for");
    return query_once(*options);
  };
}

}  // namespace scbf::cli
