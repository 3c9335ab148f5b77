# shellcheck shell=bash
# What the cases are made of: a simulated host, bundles, the wrapper, and checks that say what was expected and what was found.
#
# From ./case: ENGINE such as runc-v1, WORK (the folder of the whole run), GROUP (the name of all cgroups).

RUNTIME=$(command -v "${ENGINE%-*}")
FLAGS=()
# A command that starts the wrapper, such as one that takes capabilities away.
STARTER=()
CASE=$WORK/case
HOST=$CASE/host
STATE=$CASE/state
# shellcheck disable=SC2034 # For the cases.
LOG=$HOST/var/log/neuron-container-runtime.log

# What is in /run by default, the runtimes' own state and this host's real ledger, is out of reach.
hide_run() {
    mount -t tmpfs -o mode=0755 none /run
}

prepare_cgroups() {
    case $ENGINE in
    *-v2)
        # runc takes the v2 road where this is what /sys/fs/cgroup is.
        umount -R /sys/fs/cgroup
        mount -t cgroup2 none /sys/fs/cgroup
        ;;
    crun-v1)
        # crun refuses v1 with v2 beside it; and it writes into that folder even where it is none of cgroup's.
        ! mountpoint -q /sys/fs/cgroup/unified || { umount /sys/fs/cgroup/unified && mount -t tmpfs none /sys/fs/cgroup/unified; }
        ;;
    esac
    case $ENGINE in crun-*) FLAGS=(--cgroup-manager=cgroupfs) ;; esac
}

# Sixteen simulated chips, a root folder for containers, settings that name the runtime under test.
prepare_host() {
    # /tmp may be mounted with nodev.
    mount -t tmpfs -o mode=0755,dev none "$CASE"
    "$WORK/bin/neuron-ctk" simulate trn1.32xlarge "$HOST" >/dev/null
    # The first major for local use that no driver has, as the design says; in hex as stat shows it.
    MAJOR=$(awk '/^Block/ { exit } $1 >= 240 && $1 <= 254 { used[$1] = 1 } END { for (m = 240; m in used; m++); print m }' /proc/devices)
    # shellcheck disable=SC2034 # For the cases.
    HEX=$(printf %x "$MAJOR")
    mkdir -p "$CASE/rootfs"/{bin,proc,sys,dev,scratch}
    chmod 1777 "$CASE/rootfs/scratch"
    touch "$CASE/rootfs/other"
    cp "$(command -v busybox)" "$CASE/rootfs/bin/busybox"
    chroot "$CASE/rootfs" /bin/busybox --install -s /bin
    (cd "$CASE" && "$RUNTIME" spec && mv config.json spec.json)
    settings
    export NEURON_HOST_ROOT=$HOST NEURON_SETTINGS=$CASE/config.toml
}

# settings [LINE…]: a config.toml with these lines, and the runtime under test where they name none.
settings() {
    local lines
    lines=$(printf '%s\n' "$@")
    case $lines in *runtimes*) ;; *) lines="runtimes = [\"$RUNTIME\"]"$'\n'$lines ;; esac
    echo "$lines" >"$CASE/config.toml"
}

# bundle NAME SCRIPT [FILTER]: a bundle that runs the shell script, changed by a jq filter (spec.jq).
bundle() {
    mkdir -p "$CASE/$1"
    jq --arg script "$2" --arg rootfs "$CASE/rootfs" --arg cgroup "/$GROUP/$1" --arg host "$HOST" --argjson neuron "$MAJOR" \
        "$(cat "$HERE/spec.jq") base(\$script; \$rootfs; \$cgroup) | ${3:-.}" "$CASE/spec.json" >"$CASE/$1/config.json"
}

# executable NAME: an executable file, from stdin.
executable() {
    cat >"$CASE/$1"
    chmod 755 "$CASE/$1"
}

neuron() {
    "${STARTER[@]}" "$WORK/bin/neuron-container-runtime" --root "$STATE" "${FLAGS[@]}" "$@"
}

# started_by COMMAND…: from now on the wrapper is.
started_by() {
    STARTER=("$@")
}

# attempt NAME COMMAND…: runs it, whatever comes of it; its code is in RC, its words in NAME.out and NAME.err.
attempt() {
    local name=$1
    shift
    RC=0
    "$@" >"$CASE/$name.out" 2>"$CASE/$name.err" </dev/null || RC=$?
}

# run NAME: a container in the foreground.
run() {
    attempt "$1" neuron run --bundle "$CASE/$1" "$1"
}

# succeeds NAME: the last attempt did.
succeeds() {
    equal "exit code of $1, which said [$(cat "$CASE/$1.err")]" 0 "$RC"
}

# up NAME: a container that goes on in the background.
up() {
    attempt "$1" neuron create --bundle "$CASE/$1" "$1"
    succeeds "$1"
    neuron start "$1"
}

# in_background NAME ARGUMENT…: the wrapper, with its pid in WRAPPER; clean_up ends it if the case does not.
in_background() {
    local name=$1
    shift
    # Not by calling neuron: the pid would be a shell's.
    "${STARTER[@]}" "$WORK/bin/neuron-container-runtime" --root "$STATE" "${FLAGS[@]}" "$@" \
        </dev/null >"$CASE/$name.out" 2>"$CASE/$name.err" &
    # shellcheck disable=SC2034 # For the cases.
    WRAPPER=$!
}

status() {
    "$WORK/bin/neuron-ctk" status --json
}

remaining() {
    status | jq .remaining
}

# lease NAME FILTER: of the container's lease; "none" where it has none.
lease() {
    status | jq -r --arg name "$1" "[.leases[] | select(.container == \$name)] | if . == [] then \"none\" else .[0] | $2 end"
}

chips() {
    lease "$1" '.chips | map(tostring) | join(",")'
}

init_of() {
    "$RUNTIME" --root "$STATE" "${FLAGS[@]}" state "$1" | jq .pid
}

# Has the process ended? Its parent may not have asked for it yet (Z); but while it has threads they hold its files.
ended() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    # State and number of threads, fields 3 and 20; the name in field 2 may hold anything.
    read -ra stat <<<"${stat##*) }"
    case ${stat[0]} in
    X) return 0 ;;
    Z) [ "${stat[17]}" -le 1 ] ;;
    *) return 1 ;;
    esac
}

# within WHAT COMMAND…: waits until the command succeeds, ten seconds at most.
within() {
    local what=$1
    shift
    local deadline=$((SECONDS + 10))
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || give_up "expected within 10 s: $what"
        sleep 0.02
    done
}

# kill_and_wait PID: kill -9, until it has no effect any more.
kill_and_wait() {
    kill -KILL "$1"
    within "process $1 ends" ended "$1"
    # Where it is a child of ours: bash would tell of it later, in the file of some other attempt.
    wait "$1" 2>/dev/null || true
}

delete_containers() {
    local folder
    for folder in "$STATE"/*/; do
        [ ! -d "$folder" ] || "$RUNTIME" --root "$STATE" "${FLAGS[@]}" delete --force "$(basename "$folder")"
    done
}

give_up() {
    trap - ERR
    # One line for the report.
    tr '\n' '|' <<<"$*" | sed 's/|$//' >"$WORK/reason"
    exit 1
}

skip() {
    echo "$*" >"$WORK/reason"
    exit 77
}

equal() {
    [ "$2" = "$3" ] || give_up "$1: expected [$2], found [$3]"
}

differs() {
    [ "$2" != "$3" ] || give_up "$1: expected other than [$2], found the same"
}

contains() {
    case $3 in *"$2"*) ;; *) give_up "$1: expected [$2] in it, found [$3]" ;; esac
}

# refused NAME PART…: the last attempt was, by us: code 1, nothing on stdout, one line on stderr with all these parts.
refused() {
    local name=$1 said part
    shift
    said=$(cat "$CASE/$name.err")
    equal "exit code of $name, which said [$said]" 1 "$RC"
    equal "stdout of $name" "" "$(cat "$CASE/$name.out")"
    equal "lines of [$said]" 1 "$(wc -l <"$CASE/$name.err")"
    # Not a runtime that tells what the hook said.
    equal "how [$said] begins" "error: " "${said:0:7}"
    for part in "$@"; do
        contains "the refusal of $name" "$part" "$said"
    done
    # Docker makes other exit codes of these.
    case ${said,,} in
    *"no such file or directory"* | *"executable file not found"* | *"permission denied"* | *"is a directory"*)
        give_up "the refusal of $name: expected no phrase of Docker's, found [$said]"
        ;;
    esac
    [ ! -e "$STATE/$name" ] || give_up "$name: expected not to be there, but the runtime has made it"
}

nothing_is_claimed() {
    equal "free chips after $1" 16 "$(remaining)"
    equal "leases after $1" "[]" "$(status | jq -c .leases)"
}
