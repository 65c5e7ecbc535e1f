# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Real data for scripts/demo: strings that go in, strings that are asked for and are not in, and a
# table.

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
    [[ -r $dictionaries/$list ]] || die "'$dictionaries/$list': not there; scripts/install-deps --demo"
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
  if grep -q "^$made" "$folder/keys.txt"; then die "a key begins with '$made'"; fi
  say "    $(group 5000000) generated absent strings ($made…)"
}

# make_package_table FILE: this machine's package index as a TSV table with a header, a row for each
# package (of several versions the one that comes first, which is the newest). The column depends has
# the names of all packages that Depends and Pre-Depends name, alternatives too, without versions.
make_package_table() {
  apt-cache dumpavail | LC_ALL=C awk '
    function names(text, list, seen, n, i, name, joined) {
      gsub(/\([^)]*\)|\[[^]]*\]|<[^>]*>/, "", text)  # versions, architectures, profiles
      n = split(text, list, /[,|]/)
      for (i = 1; i <= n; ++i) {
        name = list[i]
        gsub(/[ \t]/, "", name)
        sub(/:.*/, "", name)  # python3:any
        if (name == "" || name in seen) continue
        seen[name]
        joined = joined (joined == "" ? "" : ",") name
      }
      return joined
    }
    BEGIN {
      RS = ""; FS = "\n"; OFS = "\t"
      print "package", "version", "section", "maintainer", "homepage", "sha256", "size", "depends"
    }
    {
      split("", field)
      for (i = 1; i <= NF; ++i) {
        gsub(/\t/, " ", $i)
        if ($i ~ /^ /) { field[last] = field[last] $i; continue }  # a line goes on
        colon = index($i, ":")
        last = substr($i, 1, colon - 1)
        field[last] = substr($i, colon + 2)
      }
      if (field["Package"] == "" || field["Package"] in done) next
      done[field["Package"]]
      print field["Package"], field["Version"], field["Section"], field["Maintainer"],
            field["Homepage"], field["SHA256"], field["Size"],
            names(field["Pre-Depends"] "," field["Depends"])
    }' >"$1"
  say "    $(group "$(($(wc -l <"$1") - 1))") packages, $(du -h --apparent-size "$1" | cut -f1)"
}

# The values of a column, one a line, each once; those of depends one by one.
column_values() {
  LC_ALL=C column=$1 awk -F '\t' '
    NR == 1 { for (i = 1; i <= NF; ++i) if ($i == ENVIRON["column"]) c = i; next }
    ENVIRON["column"] == "depends" { n = split($c, one, ","); for (i = 1; i <= n; ++i) print one[i]; next }
    $c != "" { print $c }' "$2" | sorted
}

# scan_table COLUMN VALUES TABLE: for each line of VALUES the packages that have it in that column,
# as lines "value, tab, package", sorted. A plain scan of the table, to compare answers with.
scan_table() {
  LC_ALL=C column=$1 awk -F '\t' '
    NR == FNR { wanted[$0]; next }
    FNR == 1 { for (i = 1; i <= NF; ++i) if ($i == ENVIRON["column"]) c = i; next }
    ENVIRON["column"] != "depends" { if ($c in wanted) print $c "\t" $1; next }
    { n = split($c, one, ","); for (i = 1; i <= n; ++i) if (one[i] in wanted) print one[i] "\t" $1 }
  ' "$2" "$3" | sorted
}
