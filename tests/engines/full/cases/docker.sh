# shellcheck shell=bash
# Docker alone: restarts, its daemon's deaths, its own hooks, its API as the ECS agent calls it.

_state() {
    docker inspect --format '{{.State.Status}} {{.RestartCount}}' "$1"
}

_is_restarted() {
    [ "$(_state first)" = "running 1" ] && [ "$(lease_of first .holder.pid)" = "$(init_of first)" ]
}

a_restart_policy_asks_anew() {
    up first all --restart on-failure -- sleep 1000
    kill_and_wait "$(init_of first)"
    within "the container is there again, with chips" _is_restarted
    equal "the nodes" 16 "$(nodes first | wc -w)"
}

_containerd() {
    cat "$ROOT/run/docker/containerd/"*containerd.pid
}

# Without live-restore the next dockerd asks what it finds to stop, by a signal that an init has to listen to.
chips_stay_held_while_dockerd_is_dead() {
    up first all -- sh -c "trap exit TERM; sleep 1000 & wait"
    local init containerd
    init=$(init_of first) containerd=$(_containerd)
    kill_and_wait "$DAEMON"
    within "dockerd's containerd ends with it" ended "$containerd"
    equal "free chips without dockerd" 0 "$(remaining)"
    ! ended "$init" || give_up "expected the container to outlive dockerd, found it dead"
    # Docker 20 takes a containerd that nobody has asked for yet (Z) for one that runs.
    rm -f "$ROOT/run/docker.pid" "$ROOT"/run/docker/containerd/*containerd.pid
    start_dockerd
    within "the container that the new dockerd ends gives its chips back" all_are_free
    up second all -- sleep 1000
}

chips_stay_held_when_dockerd_containerd_and_shim_are_dead() {
    up first all -- sleep 1000
    local init shim
    init=$(init_of first)
    shim=$(parent_of "$init")
    kill -KILL "$DAEMON" "$(_containerd)" "$shim"
    within "they are dead" ended "$shim"
    ! ended "$init" || give_up "expected the container to live on, found it dead"
    equal "free chips while it lives" 0 "$(remaining)"
    kill_and_wait "$init"
    nothing_is_claimed "the container's end"
}

# network set-up is such a hook.
dockers_own_hooks_stay() {
    up first any:1 -- sleep 1000
    local spec
    spec=$(find "$ROOT/run" -path "*$(id_of first)/config.json" | head -n 1)
    equal "prestart and createRuntime hooks" "libnetwork-setkey createRuntime" \
        "$(jq -r '[.hooks.prestart[0].args[0], .hooks.createRuntime[-1].args[1]] | join(" ")' "$spec")"
}

an_init_of_dockers_is_the_holder() {
    up first any:1 --init -- sleep 1000
    equal "the holder" "$(init_of first)" "$(lease_of first .holder.pid)"
    docker kill first >/dev/null
    nothing_is_claimed "docker kill"
}

_is_healthy() {
    [ "$(docker inspect --format '{{.State.Health.Status}}' first)" = healthy ]
}

a_health_check_sees_the_chips_variables() {
    up first any:2 --health-cmd 'test "$AWS_NEURON_VISIBLE_DEVICES" = 0,1' --health-interval 1s -- sleep 1000
    within "the container is healthy" _is_healthy
}

two_containers_share_a_chip_by_its_cores() {
    local name
    for name in first second; do
        up "$name" "" --env AWS_NEURON_CORES=1 -- sleep 1000
        equal "the nodes" "/dev/neuron0=$HEX:0" "$(nodes "$name")"
    done
    equal "who may use which core" "0 1" "$(variable first NEURON_RT_VISIBLE_CORES) $(variable second NEURON_RT_VISIBLE_CORES)"
}

_waits() {
    [ "$(status | jq '.queue | length')" = 1 ]
}

a_request_that_may_wait_is_served_when_chips_come_free() {
    up first all -- sleep 1000
    attempt second launch_detached second all --env AWS_NEURON_WAIT=30s -- sleep 1000 &
    local waiting=$!
    within "the second waits" _waits
    docker kill first >/dev/null
    wait "$waiting"
    equal "nodes" 16 "$(nodes second | wc -w)"
}

# _api METHOD PATH: as a client of Docker's API, with the body on stdin.
_api() {
    curl --silent --fail-with-body --unix-socket "$ROOT/run/docker.sock" --request "$1" --header 'Content-Type: application/json' --data @- "http://docker$2"
}

# amazon-ecs-agent, agent/api/task/task.go: the runtime "neuron" for a container with this variable.
a_task_as_the_ecs_agent_starts_it() {
    jq -n --arg group "/$GROUP" '{Image: "bb", Cmd: ["sleep", "1000"], Env: ["AWS_NEURON_VISIBLE_DEVICES=any:2"],
        HostConfig: {Runtime: "neuron", NetworkMode: "none", Memory: 0, CgroupParent: $group}}' |
        _api POST '/containers/create?name=first' >"$CASE/created"
    _api POST /containers/first/start </dev/null
    equal "the nodes" "/dev/neuron0=$HEX:0 /dev/neuron1=$HEX:1" "$(nodes first)"
}

# The ECS guide's task definition for inf1.xlarge names one device, the capability, and no variable; the agent leaves the runtime to
# Docker's default one.
a_task_of_the_ecs_guide_runs_unchanged_and_its_chip_is_taken() {
    configure docker --default >"$CASE/configure.out"
    within "neuron is the default runtime" _is_default
    jq -n --arg group "/$GROUP" '{Image: "bb", Cmd: ["sleep", "1000"], HostConfig: {NetworkMode: "none", CapAdd: ["IPC_LOCK"], CgroupParent: $group,
        Devices: [{PathOnHost: "/dev/neuron0", PathInContainer: "/dev/neuron0", CgroupPermissions: "rw"}]}}' |
        _api POST '/containers/create?name=first' >"$CASE/created"
    _api POST /containers/first/start </dev/null
    equal "the nodes" "/dev/neuron0=$HEX:0" "$(nodes first)"
    equal "the lease" "adopted 0" "$(lease_of first '"\(.mode) \(.chips[0])"')"
}

_is_default() {
    [ "$(docker info --format '{{.DefaultRuntime}}')" = neuron ]
}

a_running_dockerd_learns_of_the_runtime_and_unlearns_it() {
    configure docker --remove >"$CASE/remove.out"
    cmp "$CASE/daemon.json" "$ROOT/etc/docker/daemon.json" || give_up "expected daemon.json as it was, found $(cat "$ROOT/etc/docker/daemon.json")"
    configure docker >"$CASE/configure.out"
    up first any:1 -- sleep 1000
}
