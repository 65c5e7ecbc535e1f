// SPDX-License-Identifier: Apache-2.0
// Copies of files for backups. A file that never changes is shared by a hard link, where the file
// system and the permissions allow that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace scbf::index {

/// Makes the new file `to` of the first `bytes` of an open file, which was opened as `path`. Throws
/// IoError.
void copy_file(int from, const std::filesystem::path& path, std::uint64_t bytes,
               const std::filesystem::path& to);
void copy_file(const std::filesystem::path& from, std::uint64_t bytes,
               const std::filesystem::path& to);
/// Makes a new file with these bytes. Throws IoError.
void write_new_file(const std::filesystem::path& to, std::string_view bytes);
/// Makes `to` a hard link to a file that never changes, else a copy. Returns false if there is no
/// such file. Throws IoError.
bool link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to);
/// On return the names in a folder are on disk. Throws IoError. Some file systems cannot do that,
/// and nothing can be done about it: there it does nothing.
void sync_entries(const std::filesystem::path& folder);
/// On return a folder, its name, its folders and all files in them are on disk. Throws IoError.
void sync_folder(const std::filesystem::path& folder);

}  // namespace scbf::index
