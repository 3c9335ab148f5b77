# shellcheck shell=bash
# What runs cases, for the run scripts: each in a process and a mount namespace of its own (./case), with its files on a tmpfs in
# there, so that whatever becomes of it nothing stays mounted. Its containers' cgroups all lie under one name, by which they are
# found and swept.
#
#   NEURON_CTK    the binary to test; default: the newest release build of this repository
#   ONLY          a pattern over "ENGINE NAME", to run some cases only: ONLY='crun-v1 *hook*'

HARNESS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=SCRIPTDIR/sweep.sh
. "$HARNESS/sweep.sh"

child=
passed=0 failed=0 skipped=0

stop() {
    echo "$0: $*" >&2
    exit 1
}

needs_tools() {
    local tool
    for tool; do
        command -v "$tool" >/dev/null || stop "$tool is not installed"
    done
}

newest_build() {
    local repository found
    repository=$(cd "$HARNESS/../.." && pwd)
    # With a target triple in .cargo/config.toml, and without.
    found=$(find "${CARGO_TARGET_DIR:-$repository/target}" -maxdepth 3 -path '*release/neuron-ctk' -type f -printf '%T@ %p\n' 2>/dev/null |
        sort -rn | head -n 1)
    echo "${found#* }"
}

# set_up NAME: the folder of this run, with the binary under test and its links; swept at the end, however that comes.
set_up() {
    [ "$(id -u)" = 0 ] || stop "must be run by root: real containers, device nodes and cgroups are made"
    needs_tools jq busybox unshare timeout
    local binary
    binary=${NEURON_CTK:-$(newest_build)}
    [ -x "$binary" ] || stop "no neuron-ctk found: cargo build --release --locked, or set NEURON_CTK"

    # What a user has set for this tool is not to reach the tests.
    unset NEURON_SETTINGS NEURON_HOST_ROOT

    WORK=$(mktemp -d "${TMPDIR:-/tmp}/$1.XXXXXX")
    export WORK
    export GROUP=${WORK##*/}
    trap finish EXIT
    trap interrupted INT TERM HUP

    # Users in a user namespace must get through, and what is to be trusted must not be writable by others.
    umask 022
    chmod 755 "$WORK"
    mkdir "$WORK/bin" "$WORK/case" "$WORK/root"
    install -m 755 "$binary" "$WORK/bin/neuron-ctk"
    ln -s neuron-ctk "$WORK/bin/neuron-container-runtime"
    ln -s neuron-ctk "$WORK/bin/neuron-container-hook"
}

# Processes first, for an engine would hand the processes of a container that it is about to lose to nobody.
sweep() {
    sweep_processes "$WORK/case"
    sweep_cgroups "$GROUP"
}

finish() {
    sweep
    rm -rf --one-file-system "$WORK"
}

interrupted() {
    # timeout hands the signal on to the case's whole process group, and the case cleans up before it ends.
    [ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2>/dev/null || true
    # Not to stderr, which may be turned off where the signal came.
    echo "interrupted"
    exit 1
}

seconds_since() {
    LC_ALL=C awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f s", to - from }'
}

report() {
    local name=$1 code=$2 took=$3 reason=
    [ ! -e "$WORK/reason" ] || reason=$(cat "$WORK/reason")
    case $code in
    0) passed=$((passed + 1)) && echo "ok $name ($took)" ;;
    77) skipped=$((skipped + 1)) && echo "skip $name: $reason" ;;
    124 | 137) failed=$((failed + 1)) && echo "not ok $name: was expected to end, is still at it after $took" ;;
    *) failed=$((failed + 1)) && echo "not ok $name: ${reason:-ended with $code: $(tail -n 1 "$WORK/output")}" ;;
    esac
}

# skip_all ENGINE REASON: none of its cases can be run here.
skip_all() {
    echo "$2" >"$WORK/reason"
    report "$1" 77 ""
}

try() {
    local folder=$1 engine=$2 file=$3 name=$4 code=0 started=$EPOCHREALTIME
    rm -f "$WORK/reason"
    # In the background, for bash handles a signal only after the command in the foreground.
    timeout --kill-after=20 90 unshare --mount --propagation private "$HARNESS/case" "$folder" "$engine" "$file" "$name" \
        </dev/null >"$WORK/output" 2>&1 &
    child=$!
    # bash would tell of a child that was killed.
    { wait "$child" || code=$?; } 2>/dev/null
    child=
    # A case sweeps after itself, unless it was killed.
    [ "$code" -lt 124 ] || sweep
    report "$engine ${name//_/ }" "$code" "$(seconds_since "$started")"
}

# try_all FOLDER ENGINE FILE…: the cases of these files.
try_all() {
    local folder=$1 engine=$2 file name
    shift 2
    for file; do
        # shellcheck disable=SC2013 # They are words.
        # A case is a function whose name begins in the first column and without "_"; helpers begin with it.
        for name in $(sed -n 's/^\([a-z0-9][a-z0-9_]*\)() {$/\1/p' "$file"); do
            # shellcheck disable=SC2254 # It is a pattern.
            case "$engine ${name//_/ }" in ${ONLY:-*}) try "$folder" "$engine" "$file" "$name" ;; esac
        done
    done
}

has_v1() {
    awk '$1 == "devices" && $2 != 0 { found = 1 } END { exit !found }' /proc/cgroups
}

# conclude: nothing may be left, and how many passed; fails where a case has.
conclude() {
    local left
    left=$(
        cgroup_folders "$GROUP"
        grep -F "$WORK" /proc/self/mountinfo || true
        grep -lF "$WORK" /proc/[0-9]*/mountinfo /proc/[0-9]*/cmdline 2>/dev/null || true
    )
    echo "left behind: ${left//$'\n'/ }" >"$WORK/reason"
    report "nothing is left behind" "$([ -z "$left" ]; echo $?)" "0.0 s"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
