# shellcheck shell=bash
# Docker, with a dockerd of its own. Before 24 it has no annotations: there the environment asks.

# shellcheck disable=SC2034 # For the cases.
REFUSED=125

start_engine() {
    jq -n --arg group "/$GROUP" '{bridge: "none", iptables: false, "ip-forward": false, "cgroup-parent": $group, features: {cdi: true}}' >"$CASE/daemon.json"
    cp "$CASE/daemon.json" "$ROOT/etc/docker/daemon.json"
    configure docker >"$CASE/configure.out"
    start_dockerd
    tar -C "$CASE/rootfs" -c . | docker import --change 'ENV PATH=/bin' - bb >/dev/null
}

start_dockerd() {
    daemon dockerd
    within "dockerd answers" answers
}

answers() {
    docker version >/dev/null 2>&1
}

docker() {
    in_root /usr/bin/docker "$@"
}

client() {
    docker "$@"
}

launch() {
    _docker_run --rm "$@"
}

launch_detached() {
    _docker_run --detach "$@"
}

_docker_run() {
    local how=$1 name=$2 ask=$3 flags command
    shift 3
    split "$@"
    case $ask,$ENGINE in
    ,*) ;;
    *,docker20-*) flags+=(--env "AWS_NEURON_VISIBLE_DEVICES=$ask") ;;
    *) flags+=(--annotation "aws.amazon.com/neuron=$ask") ;;
    esac
    docker run "$how" --name "$name" --runtime neuron --network none "${flags[@]}" bb "${command[@]}"
}

id_of() {
    docker inspect --format '{{.Id}}' "$1"
}

init_of() {
    docker inspect --format '{{.State.Pid}}' "$1"
}

inside() {
    docker exec "$1" sh -c "$2" 2>&1
}
