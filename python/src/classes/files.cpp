// SPDX-License-Identifier: Apache-2.0
// What a file of a filter or of a bank holds, and whether it is whole.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "module.hpp"
#include "outside.hpp"
#include "scbf/bank.hpp"
#include "scbf/bloom_filter.hpp"
#include "scbf/filter.hpp"
#include "text.hpp"

namespace nb = nanobind;

namespace scbf::python {
namespace {

const char* kind_of(const FileInfo& info) {
  if (info.is_delta) return "delta";
  return info.cell() == Cell::bit ? "bits" : "counters";
}

std::uint64_t sum(const FileInfo& info, std::uint64_t StageFileInfo::*field) {
  std::uint64_t all = 0;
  for (const StageFileInfo& stage : info.stages) all += stage.*field;
  return all;
}

nb::object read_by(AnyFileInfo (*reader)(const std::filesystem::path&),
                   const std::filesystem::path& path) {
  std::optional<AnyFileInfo> info;
  {
    Outside others_may_run;
    info = reader(path);
  }
  return std::visit([](auto& known) { return nb::cast(std::move(known)); }, *info);
}

}  // namespace

void add_files(nb::module_& module) {
  nb::class_<FileInfo>(module, "FileInfo", "What the headers of a filter file say.")
      .def_prop_ro("kind", &kind_of,
                   "``'counters'`` for a Filter, ``'bits'`` for a BloomFilter, or ``'delta'``")
      .def_ro("growth", &FileInfo::growth)
      .def_prop_ro(
          "geometry", [](const FileInfo& i) { return i.stages.front().shape.geometry; },
          "of the first stage")
      .def_prop_ro(
          "stages", [](const FileInfo& i) { return i.stages.size(); }, "number of stages")
      .def_ro("seed", &FileInfo::seed)
      .def_ro("file_bytes", &FileInfo::file_bytes)
      .def_prop_ro(
          "metadata", [](const FileInfo& i) { return decoded(i.metadata); },
          nb::for_getter(nb::sig("def metadata(self, /) -> str")))
      .def_ro("compressed", &FileInfo::compressed, "if so, it can be loaded but not mapped")
      .def_prop_ro("keys_inserted",
                   [](const FileInfo& i) { return sum(i, &StageFileInfo::keys_inserted); })
      .def_prop_ro("keys_removed",
                   [](const FileInfo& i) { return sum(i, &StageFileInfo::keys_removed); })
      .def("__repr__", [](const FileInfo& i) {
        return fmt::format("<scbf.FileInfo: {}, {}, {} bytes>", kind_of(i),
                           counted(i.stages.size(), "stage"), i.file_bytes);
      });
  nb::class_<BankFileInfo>(module, "BankFileInfo", "What the headers of a bank file say.")
      .def_prop_ro(
          "kind", [](const BankFileInfo& i) { return i.cell == Cell::bit ? "bits_bank" : "bank"; },
          "``'bank'``, or ``'bits_bank'`` for a BloomBank")
      .def_ro("growth", &BankFileInfo::growth)
      .def_ro("seed", &BankFileInfo::seed)
      .def_ro("capacity", &BankFileInfo::capacity, "members that there is room for")
      .def_ro("row_bytes", &BankFileInfo::row_bytes,
              "bytes that rows of bits take when the bank is loaded, however few members there "
              "are: look at it before you load a file that you do not trust")
      .def_prop_ro(
          "members",
          [](const BankFileInfo& i) {
            nb::dict all;
            for (const MemberFileInfo& member : i.members) {
              all[nb::int_(member.number)] = nb::cast(member.filter);
            }
            return all;
          },
          nb::sig("def members(self) -> dict[int, FileInfo]"),
          "what the file says of each member, by number")
      .def_ro("file_bytes", &BankFileInfo::file_bytes)
      .def_prop_ro(
          "metadata", [](const BankFileInfo& i) { return decoded(i.metadata); },
          nb::for_getter(nb::sig("def metadata(self, /) -> str")))
      .def_ro("compressed", &BankFileInfo::compressed)
      .def("__repr__", [](const BankFileInfo& i) {
        return fmt::format("<scbf.BankFileInfo: {}, {} bytes>", counted(i.members.size(), "member"),
                           i.file_bytes);
      });
  module.def(
      "read_file_info",
      [](const std::filesystem::path& path) { return read_by(&read_any_file_info, path); },
      nb::arg("path"),
      nb::sig("def read_file_info(path: str | os.PathLike[str]) -> FileInfo | BankFileInfo"),
      "Reads and verifies the headers of a file. Raises IoError or CorruptFile.");
  module.def(
      "verify_file",
      [](const std::filesystem::path& path) { return read_by(&verify_any_file, path); },
      nb::arg("path"),
      nb::sig("def verify_file(path: str | os.PathLike[str]) -> FileInfo | BankFileInfo"),
      "Reads a whole file in bounded memory and verifies all of it. Raises IoError or "
      "CorruptFile.");
}

}  // namespace scbf::python
