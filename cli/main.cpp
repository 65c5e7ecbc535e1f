// SPDX-License-Identifier: Apache-2.0
// The scbf command: the table of verbs, and the only function that turns errors into exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <exception>
#include <new>

#include "command_line.hpp"
#include "errors.hpp"
#include "output.hpp"
#include "scbf/errors.hpp"
#include "verbs.hpp"

namespace scbf::cli {
namespace {

constexpr Verb kVerbs[] = {
    {"plan", "Say how large a filter must be, or what a size holds", set_up_plan},
    {"build", "Build a filter from a file of keys", set_up_build},
    {"query", "Print the keys that a filter may hold", set_up_query},
    {"insert", "Add keys to a filter", set_up_insert},
    {"remove", "Remove keys from a filter", set_up_remove},
    {"count", "Print how often each key is in a filter", set_up_count},
    {"merge", "Add other filters to a filter", set_up_merge},
    {"subtract", "Subtract a filter from a filter", set_up_subtract},
    {"project", "Keep only the bits of a filter, for readers", set_up_project},
    {"delta", "Write what changed since the last delta, for readers", set_up_delta},
    {"apply", "Apply deltas to the bits of a reader", set_up_apply},
    {"info", "Show a filter's header and statistics", set_up_info},
    {"verify", "Check every checksum of filter files", set_up_verify},
    {"bank", "Make a bank: one filter per file, queried together", set_up_bank},
    {"find", "Print which members of a bank may hold a key", set_up_find},
    {"index", "Index a table by the values of its columns, and query it", set_up_index},
    {"backends", "List the backends of this machine", set_up_backends},
    {"paper", "Print the tables of the SCBF paper: printed, computed, simulated", set_up_paper},
    {"gen", "Generate 64-bit keys", set_up_gen},
    {"bench", "Measure this machine", set_up_bench},
    {"completion", "Print the completion for a shell, or the manual page", set_up_completion},
};

constexpr const char* kFooter =
    R"(Exit codes: 0 ok, 1 nothing found, 2 usage, 3 input/output, 4 corrupt or incompatible,
5 done, but the report could not be written.

With --json, a string that is not UTF-8, such as the name of a file, is an object with its bytes:
{"bytes": [255, 46, 98]}.

Examples:
  scbf build --capacity 1M --fpr 1% -o words.scbf words.txt
  scbf query words.scbf candidates.txt > may_be_present.txt
  scbf remove words.scbf retired.txt
  scbf info words.scbf --json
'scbf help VERB' tells more about each.)";

/// If a standard stream is closed, the next file opened gets its number, and messages would end up
/// in a filter. So closed streams are opened in the wrong direction, where every use fails.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    [[maybe_unused]] const int opened =
        ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int guarded(int argc, char** argv) {
  try {
    return parse_command_line(kVerbs, kFooter, argc, argv)();
  } catch (const ReaderGone&) {
    return kOk;
  } catch (const UsageError& error) {
    note(error.what());
    return kUsage;
  } catch (const InvalidArgument& error) {
    note(error.what());
    return kUsage;
  } catch (const BackendUnavailable& error) {
    note(error.what());
    return kUsage;
  } catch (const CorruptFile& error) {
    note(error.what());
    return kCorrupt;
  } catch (const Incompatible& error) {
    note(error.what());
    return kCorrupt;
  } catch (const ReportLost& error) {
    note(error.what());
    return kReportLost;
  } catch (const std::bad_alloc&) {
    note(
        "out of memory; with --threads 1, or a smaller --capacity, --memory or --scratch where the "
        "command has them, it may fit");
    return kInputOutput;
  } catch (const std::exception& error) {  // IoError and errors of the system
    note(error.what());
    return kInputOutput;
  }
}

}  // namespace
}  // namespace scbf::cli

int main(int argc, char** argv) {
  scbf::cli::clean_up_on_signals();
  scbf::cli::occupy_standard_streams();
  return scbf::cli::guarded(argc, argv);
}
