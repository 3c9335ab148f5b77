#!/usr/bin/env bash
# Counts the instructions of the three paths up to the exec, which do not depend on what else the machine does, and compares them with
# benches/instructions.txt: a test of .ci/run. `--update` moves the pins to what is counted; say why in that file.
#
# A path that asks the processor what it can (std_detect, for memchr and its like) fails too: CPUID counts as one instruction, but in a
# virtual machine it is an exit to the hypervisor.
#
# As root. Needs valgrind and jq.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=SCRIPTDIR/stage.sh
. benches/stage.sh
need valgrind
# Where the path ends is told by the symbol execve.
export CARGO_PROFILE_RELEASE_STRIP=false
build

# count COMMAND…: its instructions, and those of the kernel's are none of them.
count() {
    sh -c "$again"
    rm -f counted*
    env -i PATH="$PATH" NEURON_SETTINGS="$work/sixteen.toml" valgrind --tool=callgrind --dump-before=execve \
        --callgrind-out-file=counted "$@" <state.json >/dev/null 2>valgrind.log || { cat valgrind.log >&2; exit 1; }
    if grep -q std_detect counted*; then
        echo "$1 asks the processor what it can: see who calls std_detect" >&2
        return 1
    fi
    awk '$1 == "totals:" { print $2 }' counted*
}

pins=$root/benches/instructions.txt
failed=0
for path in none claim bind; do
    declare -n command=$path
    counted=$(count "${command[@]}")
    pinned=$(awk -v path="$path" '$1 == path { print $2 }' "$pins")
    if [ "${1:-}" = --update ]; then
        sed -i "s/^$path .*/$path $counted/" "$pins"
    fi
    awk -v path="$path" -v counted="$counted" -v pinned="$pinned" 'BEGIN {
        off = (counted / pinned - 1) * 100
        printf "%s: %d instructions, pinned at %d (%+.1f %%)\n", path, counted, pinned, off
        exit off > 5 || off < -5 }' || failed=1
done
if [ "$failed" = 1 ] && [ "${1:-}" != --update ]; then
    echo "more than 5 % off: find out why, then benches/instructions.sh --update and a line in benches/instructions.txt" >&2
    exit 1
fi
