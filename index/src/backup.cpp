// SPDX-License-Identifier: Apache-2.0
// Backups: a copy of the store of one moment, and the filter files beside it.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "copies.hpp"
#include "crash_points.hpp"
#include "definition.hpp"
#include "filter_files.hpp"
#include "index_state.hpp"
#include "scbf/detail/in_quotes.hpp"
#include "scbf/detail/io_error.hpp"

namespace scbf {

using namespace index;

namespace {

/// Makes a folder; removes it with everything in it unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(const std::filesystem::path& path) : path_(path) {
    std::error_code error;
    const bool made = std::filesystem::create_directory(path, error);
    if (error && error != std::errc::file_exists) {
      throw detail::io_error(path, "cannot create", error.value());
    }
    if (!made) {
      throw IoError(fmt::format("{}: exists: a backup makes a new directory",
                                detail::in_quotes(path.string())),
                    EEXIST, path.string());
    }
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove_all(path_, ignored);
  }
  void keep() noexcept { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

/// Whether `path` lies in `folder`, or is that folder.
bool is_within(const std::filesystem::path& path, const std::filesystem::path& folder) {
  std::error_code ignored;
  const auto inner = std::filesystem::weakly_canonical(std::filesystem::absolute(path), ignored),
             outer = std::filesystem::weakly_canonical(std::filesystem::absolute(folder), ignored);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

std::chrono::system_clock::time_point SecondaryIndex::backup(
    const std::filesystem::path& to) const {
  if (to.empty()) throw InvalidArgument("the directory of the backup has no name");
  if (is_within(to, state_->path)) {
    throw InvalidArgument(fmt::format("{}: lies in the index, {}: back up to another directory",
                                      detail::in_quotes(to.string()),
                                      detail::in_quotes(state_->path.string())));
  }
  const auto as_of = freshness().as_of;
  NewFolder folder(to);
  try {
    // The filters come first, so that the store's log has the changes that they lack. If one is
    // saved in between, its history shows that, and it is rebuilt when the backup is opened. The
    // store comes last, as a whole: without it the folder does not open as an index.
    std::filesystem::create_directory(to / kFilterFolder);
    const auto map = state_->current_map();  // held: regions may be split and merged meanwhile
    for (const RegionLocation& location : map->locations()) {
      const RegionId id = location.region->id;
      link_or_copy(state_->filter_path(id), to / kFilterFolder / filter_file_name(id));
      crash_point("backup: a filter is there");
    }
    crash_point("backup: the filters are there");
    state_->store->copy_to(std::filesystem::absolute(to) / kStore);
    crash_point("backup: the store is there");
    sync_folder(to);
  } catch (const std::filesystem::filesystem_error& error) {
    throw detail::io_error(error);
  }
  folder.keep();
  return as_of;
}

}  // namespace scbf
