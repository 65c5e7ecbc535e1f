# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Real strings for scripts/demo: what goes in, and what is asked for and is not in.

dictionaries=/usr/share/dict
# Languages that go in, and languages that are held back as real, absent keys.
indexed_lists=(polish ukrainian american-english-huge british-english-huge ngerman french spanish
  italian portuguese brazilian dutch swedish)
held_back_lists=(bulgarian catalan danish)
# Fields of the package index whose values go in.
index_fields='Package|Source|Version|Filename|SHA256|MD5sum|Description|Description-md5|Maintainer|Homepage'

# group N: with thousands separated.
group() { sed -E ':a; s/^([0-9]+)([0-9]{3})/\1,\2/; ta' <<<"$1"; }

sorted() { LC_ALL=C sort --unique --buffer-size=1G "$@"; }

# make_real_keys FOLDER: keys.txt, absent-real.txt and absent-made.txt in it, each line once.
make_real_keys() {
  local folder=$1 list
  local -x TMPDIR=$1  # for sort
  local made='https://example.org/item/'
  for list in "${indexed_lists[@]}" "${held_back_lists[@]}"; do
    [[ -r $dictionaries/$list ]] || die "$dictionaries/$list: not there; scripts/install-deps --demo"
  done
  sorted "${indexed_lists[@]/#/$dictionaries/}" | sed '/^$/d' >"$folder/words.txt"
  say "    $(group "$(wc -l <"$folder/words.txt")") distinct words from ${#indexed_lists[@]} word lists:" \
    "${indexed_lists[*]}"

  apt-cache dumpavail | LC_ALL=C sed -nE "s/^($index_fields): //p" | sorted >"$folder/packages.txt"
  say "    $(group "$(wc -l <"$folder/packages.txt")") distinct strings from this machine's package index:" \
    "names, versions, file names, checksums, descriptions, maintainers"

  sorted --merge "$folder/words.txt" "$folder/packages.txt" >"$folder/keys.txt"
  say "  = $(group "$(wc -l <"$folder/keys.txt")") distinct keys, $(du -h --apparent-size "$folder/keys.txt" | cut -f1)"

  sorted "${held_back_lists[@]/#/$dictionaries/}" | sed '/^$/d' |
    LC_ALL=C comm -23 - "$folder/keys.txt" >"$folder/absent-real.txt"
  say "    $(group "$(wc -l <"$folder/absent-real.txt")") real words held back (${held_back_lists[*]}, less what is in the keys)"

  seq 1 5000000 | sed "s|^|$made|" >"$folder/absent-made.txt"
  if grep -q "^$made" "$folder/keys.txt"; then die "a key begins with $made"; fi
  say "    $(group 5000000) generated absent strings ($made…)"
}
