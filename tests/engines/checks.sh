# shellcheck shell=bash
# Checks that say what was expected and what was found, and what the ledger holds.
#
# From ./case: WORK (the folder of the whole run), CASE (the case's own) and HOST (the simulated one, whose status is looked up).

prepare_cgroups() {
    case $ENGINE in
    *-v2)
        # runc takes the v2 road where this is what /sys/fs/cgroup is.
        umount -R /sys/fs/cgroup
        mount -t cgroup2 none /sys/fs/cgroup
        ;;
    crun-v1 | podman*-v1)
        # crun refuses v1 with v2 beside it; and it writes into that folder even where it is none of cgroup's.
        ! mountpoint -q /sys/fs/cgroup/unified || { umount /sys/fs/cgroup/unified && mount -t tmpfs none /sys/fs/cgroup/unified; }
        ;;
    esac
}

# attempt NAME COMMAND…: runs it, whatever comes of it; its code is in RC, its words in NAME.out and NAME.err.
attempt() {
    local name=$1
    shift
    RC=0
    "$@" >"$CASE/$name.out" 2>"$CASE/$name.err" </dev/null || RC=$?
}

# succeeds NAME: the last attempt did.
succeeds() {
    equal "exit code of $1, which said [$(cat "$CASE/$1.err")]" 0 "$RC"
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

# within WHAT COMMAND…: waits until the command succeeds, half a minute at most.
within() {
    local what=$1
    shift
    local deadline=$((SECONDS + 30))
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || give_up "expected within 30 s: $what"
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

nothing_is_claimed() {
    equal "free chips after $1" 16 "$(remaining)"
    equal "leases after $1" "[]" "$(status | jq -c .leases)"
}
