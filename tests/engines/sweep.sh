# shellcheck shell=bash
# What may be left of a case: processes that see its files, and cgroups, which all bear one name in whatever hierarchies are
# mounted. Nothing else is touched, and nothing by its program's name.

# Ends the processes in whose mount namespace the folder is mounted on, but for the caller; hooks and stand-ins that wait for
# something would wait for ever. A container's own processes are not among them: they are found by their cgroup.
sweep_processes() {
    local file pid
    for file in $(grep -lsF " $1 " /proc/[0-9]*/mountinfo || true); do
        pid=${file#/proc/} pid=${pid%%/*}
        [ "$pid" = $$ ] || kill -KILL "$pid" 2>/dev/null || true
    done
}

cgroup_folders() {
    local folder
    # cgroup v2 alone; v1 and, as "unified", v2 beside it.
    for folder in "/sys/fs/cgroup/$1" /sys/fs/cgroup/*/"$1"; do
        case $(stat -f -c %T "$folder" 2>/dev/null) in cgroup*) echo "$folder" ;; esac
    done
}

# Ends every process in the cgroups of that name, by its id, and removes them.
sweep_cgroups() {
    local folder pid round
    for round in {1..100}; do
        for folder in $(cgroup_folders "$1"); do
            find "$folder" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u | while read -r pid; do
                # 0 is a process of another pid namespace.
                [ "$pid" = 0 ] || kill -KILL "$pid" 2>/dev/null || true
            done
            # A frozen process does not die.
            find "$folder" -name freezer.state -exec sh -c 'for f; do echo THAWED >"$f"; done' - {} + 2>/dev/null || true
            find "$folder" -name cgroup.freeze -exec sh -c 'for f; do echo 0 >"$f"; done' - {} + 2>/dev/null || true
            find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
        done
        [ -n "$(cgroup_folders "$1")" ] || return 0
        sleep 0.05
    done
    echo "cgroups are left after round $round: $(cgroup_folders "$1")" >&2
}
