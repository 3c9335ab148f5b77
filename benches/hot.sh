#!/usr/bin/env bash
# Writes src/hot.ld: the functions that the wrapper and the hook run through, in the order in which they do, so that the linker lays them
# side by side and the kernel maps them with few page faults. benches/overhead.sh says what that is worth.
#
# A name that is no more costs nothing but its part of the gain. As root. Needs valgrind and jq.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=SCRIPTDIR/stage.sh
. benches/stage.sh
need valgrind
export CARGO_PROFILE_RELEASE_STRIP=false NEURON_LINK_MAP=$work/map
touch build.rs
build
for path in none bind claim; do
    declare -n command=$path
    sh -c "$again"
    NEURON_SETTINGS=$work/sixteen.toml valgrind --tool=callgrind --demangle=no --dump-before=execve --callgrind-out-file="counted-$path" \
        "${command[@]}" <state.json >/dev/null 2>valgrind.log || { cat valgrind.log >&2; exit 1; }
done

# What valgrind does not see: it hides the vdso, and stops before the exec.
printf 'fn=(0) %s\n' _dl_new_object _dl_setup_hash _dl_lookup_symbol_x __strcmp_avx2 execve >hidden

# The map has a line for each section, "address … file:(section)", and behind it one for each symbol in it.
{
    cat <<'HEAD'
/* Made by benches/hot.sh: the functions on the way of every container, next to each other. */
SECTIONS {
  .text.hot : {
HEAD
    awk '
        FNR == 1 { file++ }
        file == 1 && /:\(\.text[^)]*\)$/ { split($NF, part, ":\\("); from = part[1]; section = substr(part[2], 1, length(part[2]) - 1) }
        file == 1 { at[$NF] = from == "" ? "" : from " " section }
        file > 1 && /^c?fn=\([0-9]+\) / {
            name = $2
            sub(/\x27[0-9]+$/, "", name)
            if (!(name in at) || seen[at[name]]++) next
            split(at[name], place, " ")
            section = place[2]
            # The hash of a symbol is that of one build.
            sub(/17h[0-9a-f]+E.*/, "17h*", section)
            sub(/\.llvm\.[0-9]+$/, ".llvm.*", section)
            where = "*"
            if (match(place[1], /[^\/]*\.a\([^)]*\.o\)?$/)) {
                where = substr(place[1], RSTART, RLENGTH)
                sub(/\(/, ":", where)
                sub(/\)$/, "", where)
                where = where ~ /\.rlib/ ? "*" : "*" where
            } else if (section == ".text") {
                # Not that of every file.
                sub(/.*\//, "*", place[1])
                where = place[1]
            }
            line = "    " where "(" section ")"
            if (!written[line]++) print line
        }' map counted-none* hidden counted-bind* counted-claim*
    printf '  }\n} INSERT BEFORE .text;\n'
} >hot.ld
cp hot.ld "$root/src/hot.ld"
wc -l "$root/src/hot.ld"
