# shellcheck shell=bash
# Another process in a container that holds chips, as `docker exec` and health checks begin it: from a file of the engine's.

# What a session of user $1 with the variable $2 tells of itself.
_session() {
    jq -n --argjson uid "$1" --arg env "$2" '["CAP_KILL"] as $held | {
        user: {uid: $uid, gid: $uid}, cwd: "/", env: ["PATH=/bin", $env],
        args: ["/bin/sh", "-c", "env | grep NEURON | sort; grep CapEff /proc/self/status | tr \"\t\" \" \"; ls /proc/self/fd | tr \"\n\" \" \""],
        capabilities: {bounding: $held, effective: $held, permitted: $held}}' >"$CASE/process.json"
    cp "$CASE/process.json" "$CASE/process.before"
    attempt session neuron exec --process "$CASE/process.json" first
    succeeds session
    equal "the engine's file" "$(cat "$CASE/process.before")" "$(cat "$CASE/process.json")"
}

# CAP_KILL is 5, CAP_IPC_LOCK 14; for another user than root only what is ambient is effective, and Docker gives nothing ambient. The
# descriptors are stdin, stdout, stderr and that of the folder itself.
a_session_sees_the_chips_variables_and_may_lock_memory() {
    bundle first 'exec sleep 1000' 'ask("id:4-5")'
    up first
    _session 0 'AWS_NEURON_VISIBLE_DEVICES=any:2'
    equal "what root's session sees" "AWS_NEURON_VISIBLE_DEVICES=4,5
NEURON_RT_NUM_CORES=4
CapEff: 0000000000004020
0 1 2 3 " "$(cat "$CASE/session.out")"
    _session 1000 'NEURON_RT_NUM_CORES=1'
    equal "what another user's session sees" "AWS_NEURON_VISIBLE_DEVICES=4,5
NEURON_RT_NUM_CORES=1
CapEff: 0000000000004000
0 1 2 3 " "$(cat "$CASE/session.out")"
}

a_session_of_a_container_without_chips_is_as_it_came() {
    bundle first 'exec sleep 1000'
    up first
    _session 0 'AWS_NEURON_VISIBLE_DEVICES=any:2'
    equal "what the session sees" "AWS_NEURON_VISIBLE_DEVICES=any:2
CapEff: 0000000000000020
0 1 2 3 " "$(cat "$CASE/session.out")"
}

# Two containers with a core each of one chip: both may open it.
two_containers_share_a_chip() {
    local name
    for name in first second; do
        bundle "$name" 'exec sleep 1000' '.annotations["aws.amazon.com/neuroncore"] = "1"'
        up "$name"
        attempt "$name" neuron exec "$name" /bin/sh -c "stat -c %t:%T /dev/neuron0; sh -c ': <>/dev/neuron0' 2>&1 | sed 's/.*: //'"
        equal "the node in $name" "$HEX:0
No such device or address" "$(cat "$CASE/$name.out")"
    done
    equal "who holds which cores" "first 0 second 1" "$(status | jq -r '[.leases[] | "\(.container) \(.cores[0])"] | join(" ")')"
}
