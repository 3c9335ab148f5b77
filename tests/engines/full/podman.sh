# shellcheck shell=bash
# Podman, in three ways: its hook prepares the spec (podman5-hook-v1), the wrapper does (podman5-wrapper-v1), or both are there and
# the wrapper takes over what the hook claimed (podman5-both-v1).
# shellcheck disable=SC2034 # For the cases.

REFUSED=126
case $ENGINE in *-hook-*) RUNTIME_FLAGS=() ;; *) RUNTIME_FLAGS=(--runtime neuron) ;; esac

start_engine() {
    # Raising limits is not allowed on every machine, and some have v2 without its controllers.
    printf '%s\n' '[containers]' 'default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]' 'pids_limit = 0' \
        '[engine]' 'cgroup_manager = "cgroupfs"' 'events_logger = "none"' 'runtime = "runc"' >"$ROOT/etc/containers/containers.conf"
    configure podman >"$CASE/configure.out"
    case $ENGINE in *-wrapper-*) rm "$ROOT/etc/neuron-container-runtime/hooks.d/neuron-precreate.json" ;; esac
    tar -C "$CASE/rootfs" -c . | podman import --change 'ENV PATH=/bin' - bb >/dev/null
}

podman() {
    # Podman 5 warns of cgroup v1.
    PODMAN_IGNORE_CGROUPSV1_WARNING=1 in_root podman "$@"
}

client() {
    podman "$@"
}

launch() {
    _podman_run --rm "$@"
}

launch_detached() {
    _podman_run --detach "$@"
}

_podman_run() {
    local how=$1 name=$2 ask=$3 flags command
    shift 3
    split "$@"
    [ -z "$ask" ] || flags+=(--annotation "aws.amazon.com/neuron=$ask")
    podman run "$how" --name "$name" "${RUNTIME_FLAGS[@]}" --network none --cgroup-parent "/$GROUP" "${flags[@]}" bb "${command[@]}"
}

id_of() {
    podman inspect --format '{{.Id}}' "$1"
}

init_of() {
    podman inspect --format '{{.State.Pid}}' "$1"
}

inside() {
    podman exec "$1" sh -c "$2" 2>&1
}
