# An imported target for xxHash, of which only the header is used (XXH_INLINE_ALL).
find_path(SCBF_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(scbf_xxhash INTERFACE)
target_include_directories(scbf_xxhash SYSTEM INTERFACE "${SCBF_XXHASH_INCLUDE_DIR}")
