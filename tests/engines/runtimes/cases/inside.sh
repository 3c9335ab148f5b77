# shellcheck shell=bash
# What a container finds: its chips' nodes, that it may open them and no others, its environment, its capabilities.
#
# A node that may be opened gives ENXIO, for no driver is behind it; one that may not be gives EPERM.

# Puts a program into the root folder that tells all that.
_look() {
    cat >"$CASE/rootfs/bin/look" <<'LOOK'
#!/bin/sh
opened() { sh -c ": <>$1" 2>&1 | sed 's/.*: //'; }
for node in /dev/neuron* /dev/accel* /other /scratch/made; do
    [ ! -c "$node" ] || echo "$node $(stat -c %t:%T "$node") $(opened "$node")"
done
env | grep NEURON | sort
grep CapEff /proc/self/status | tr '\t' ' '
LOOK
    chmod 755 "$CASE/rootfs/bin/look"
}

# _sees FILTER CAPABILITIES [MADE]: a container that asks for chips 4 and 5 sees these, and may not open chip 9.
_sees() {
    _look
    # A node of chip 9 comes in where the tool does not look for one: mounted, and made inside where that can be done.
    bundle eyes "mknod /scratch/made c $MAJOR 9 2>/dev/null; exec look" \
        "ask(\"id:4-5\") | bind(\"\(\$host)/dev/neuron9\"; \"/other\") | scratch | $1"
    run eyes
    succeeds eyes
    local made=
    [ -z "${3:-}" ] || made="/scratch/made $HEX:9 Operation not permitted"$'\n'
    equal "what the container sees" "/dev/neuron0 $HEX:4 No such device or address
/dev/neuron1 $HEX:5 No such device or address
/other $HEX:9 Operation not permitted
${made}AWS_NEURON_VISIBLE_DEVICES=4,5
NEURON_RT_NUM_CORES=4
CapEff: $2" "$(cat "$CASE/eyes.out")"
    nothing_is_claimed "its end"
}

# `runc spec` gives CAP_KILL (5), CAP_NET_BIND_SERVICE (10), CAP_AUDIT_WRITE (29), to root only; CAP_IPC_LOCK is 14, CAP_MKNOD 27.
root_sees_its_chips_and_no_other() {
    _sees 'capability("CAP_MKNOD")' 0000000028004420 made
}

another_user_sees_its_chips_and_no_other_and_may_lock_memory() {
    _sees 'user(1000)' 0000000000004000
}

root_of_a_user_namespace_sees_its_chips_and_no_other() {
    _sees 'user_namespace' 0000000020004420
}

another_user_of_a_user_namespace_sees_its_chips_and_no_other() {
    _sees 'user_namespace | user(1000)' 0000000000004000
}

another_user_without_any_capability_may_lock_memory() {
    _sees 'user(1000) | .process.capabilities = {} | .process.noNewPrivileges = true' 0000000000004000
}

# As on a host where the engine itself is confined: the host's nodes are mounted then.
a_runtime_that_cannot_make_nodes_mounts_the_right_ones() {
    bundle plain "true"
    attempt plain setpriv --bounding-set -mknod "$RUNTIME" --root "$STATE" "${FLAGS[@]}" run --bundle "$CASE/plain" plain
    [ "$RC" = 0 ] || skip "without CAP_MKNOD $RUNTIME starts no container at all: $(cat "$CASE/plain.err")"
    started_by setpriv --bounding-set -mknod
    _sees '.' 0000000020004420
}

# A capability that the runtime lacks cannot be given, and asking for it would make create fail.
a_runtime_that_cannot_lock_memory_starts_the_container_all_the_same() {
    started_by setpriv --bounding-set -ipc_lock
    _sees '.' 0000000020000420
}

ids_in_the_environment_are_a_request_and_cores_set_there_stay() {
    _look
    bundle env "exec look" '.process.env += ["AWS_NEURON_VISIBLE_DEVICES=6", "NEURON_RT_NUM_CORES=1"]'
    run env
    succeeds env
    equal "what the container sees" "/dev/neuron0 $HEX:6 No such device or address
AWS_NEURON_VISIBLE_DEVICES=6
NEURON_RT_NUM_CORES=1
CapEff: 0000000020004420" "$(cat "$CASE/env.out")"
}

the_hosts_names_stay_where_the_settings_say_so() {
    settings 'device-naming = "host"'
    _look
    bundle names "exec look" 'ask("id:4-5")'
    run names
    succeeds names
    contains "what the container sees" "/dev/neuron4 $HEX:4 No such device or address
/dev/neuron5 $HEX:5 No such device or address
AWS" "$(cat "$CASE/names.out")"
}

a_node_that_others_may_not_open_is_made_usable_for_the_containers_user() {
    chmod 660 "$HOST"/dev/neuron*
    _look
    bundle closed "exec look" 'ask("2") | user(1000)'
    run closed
    succeeds closed
    contains "what the container sees" "/dev/neuron0 $HEX:0 No such device or address" "$(cat "$CASE/closed.out")"
}

a_node_that_others_may_not_open_is_refused_to_a_user_namespace() {
    chmod 660 "$HOST"/dev/neuron*
    bundle closed "echo started" 'ask("2") | user_namespace'
    run closed
    refused closed "0660" "0666"
    nothing_is_claimed "the refusal"
}

# Docker's --privileged: every device may be used, and each node of the host is there.
a_privileged_container_finds_only_the_node_of_its_chip() {
    _look
    bundle strong "exec look" 'ask("1") | .linux.resources.devices = [{ allow: true, access: "rwm" }]
        | .linux.devices = [range(16) | { path: "/dev/neuron\(.)", type: "c", major: $neuron, minor: ., fileMode: 438, uid: 0, gid: 0 }]'
    # Chip 0 is somebody else's, so that "neuron0" is not right by luck.
    bundle other "exec sleep 1000" 'ask("id:0")'
    up other
    run strong
    succeeds strong
    contains "what the container sees" "/dev/neuron0 $HEX:1 No such device or address
AWS_NEURON_VISIBLE_DEVICES=1
NEURON_RT_NUM_CORES=2" "$(cat "$CASE/strong.out")"
}

# The kernel's major of verbs is 231, and the first of them has minor 192 (devices.txt).
_adapter() {
    settings 'efa = "whole-host"'
    mkdir "$HOST/dev/infiniband"
    mknod -m 666 "$HOST/dev/infiniband/uverbs0" c 231 192
    bundle fabric 'stat -c %t:%T /dev/infiniband/uverbs0; : </dev/infiniband/uverbs0' "ask(\"$1\") | $2"
    run fabric
}

# Where no driver is behind the node, opening it gives ENXIO; EPERM where that is not allowed.
a_container_with_every_chip_may_open_the_fabric_adapters() {
    _adapter all .
    equal "the node" e7:c0 "$(cat "$CASE/fabric.out")"
    contains "what opening it says" "No such device or address" "$(cat "$CASE/fabric.err")"
    nothing_is_claimed "its end"
}

so_it_may_in_a_user_namespace() {
    _adapter all user_namespace
    equal "the node" e7:c0 "$(cat "$CASE/fabric.out")"
    contains "what opening it says" "No such device or address" "$(cat "$CASE/fabric.err")"
}

a_container_with_fewer_chips_sees_no_fabric_adapter() {
    _adapter 15 .
    equal "the node" "" "$(cat "$CASE/fabric.out")"
}
