# shellcheck shell=bash
# What these cases are made of: an engine that people type commands to, in a root of its own, and one way to ask each of them for a
# container. What differs is in docker.sh, ctr.sh and podman.sh:
#
#   start_engine                                 configured by `neuron-ctk configure`, with the image "bb" in it
#   launch NAME ASK FLAG… -- COMMAND…            in the foreground; ASK is a request, or "" for none
#   launch_detached NAME ASK FLAG… -- COMMAND…
#   client ARGUMENT…                             docker or podman
#   id_of NAME, init_of NAME, inside NAME SCRIPT
#   REFUSED                                      the client's exit code where the runtime refuses
#
# From ../case: FOLDER (this one), ENGINE such as docker26-v1, WORK (the folder of the whole run), GROUP (the name of all cgroups).

# shellcheck source=SCRIPTDIR/../root.sh disable=SC2153 # It is set.
. "$FOLDER/../root.sh"
# shellcheck source=/dev/null
. "$FOLDER/${ENGINE%%[0-9]*}.sh"

prepare() {
    prepare_cgroups
    prepare_root
    busybox_root
    start_engine
}

# Processes and cgroups are swept by name; mounts go with the namespace.
end_containers() {
    :
}

# split ARGUMENT…: the flags before "--" and the command behind it.
# shellcheck disable=SC2034 # For the drivers.
split() {
    flags=() command=()
    while [ "$1" != -- ]; do
        flags+=("$1")
        shift
    done
    shift
    command=("$@")
}

run() {
    attempt "$1" launch "$@"
}

# up NAME ASK FLAG… -- COMMAND…: a container that goes on in the background.
up() {
    attempt "$1" launch_detached "$@"
    succeeds "$1"
}

# refused NAME PART…: the last attempt was, in our words: the client shows them.
refused() {
    local name=$1 said part
    shift
    said=$(cat "$CASE/$name.err")
    equal "exit code of $name, which said [$said]" "$REFUSED" "$RC"
    for part in "$@"; do
        contains "what the engine says of $name" "$part" "$said"
    done
}

# The nodes in the container, and which chips they are.
nodes() {
    inside "$1" 'for node in /dev/neuron*; do [ ! -e "$node" ] || stat -c "%n=%t:%T" "$node"; done' | xargs
}

# variable NAME VARIABLE: of the container's own process.
variable() {
    tr '\0' '\n' <"/proc/$(init_of "$1")/environ" | sed -n "s/^$2=//p"
}

# can_lock_memory NAME: has the container's own process CAP_IPC_LOCK, bit 14 of the effective ones?
can_lock_memory() {
    local effective
    effective=$(awk '$1 == "CapEff:" { print $2 }' "/proc/$(init_of "$1")/status")
    [ $((0x$effective >> 14 & 1)) = 1 ]
}

lease_of() {
    lease "$(id_of "$1")" "$2"
}

chips_of() {
    chips "$(id_of "$1")"
}

parent_of() {
    awk '$1 == "PPid:" { print $2 }' "/proc/$1/status"
}

all_are_free() {
    [ "$(remaining)" = 16 ]
}
