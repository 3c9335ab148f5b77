# shellcheck shell=bash
# What happens between the claim and the container's start: bundles tampered with, and processes killed inside the hook.

# _tamper FILTER: a low-level runtime that changes config.json, by a jq filter, before it becomes the real one.
_tamper() {
    echo "$1" >"$CASE/tamper.jq"
    executable tampering <<<"#!/bin/sh
for last; do :; done
jq --argjson neuron $MAJOR --arg host $HOST -f $CASE/tamper.jq $CASE/\$last/config.json >$CASE/tampered && cp $CASE/tampered $CASE/\$last/config.json || exit 9
exec $RUNTIME \"\$@\""
    settings "runtimes = [\"$CASE/tampering\"]"
}

# _caught FILTER WORD: a container that asks for chips 4 and 5 does not start with the bundle changed so.
_caught() {
    _tamper '.'
    bundle bad "echo started" "${3:-.} | ask(\"id:4-5\")"
    # The stand-in by itself does no harm.
    run bad
    succeeds bad
    equal "what the container says" started "$(cat "$CASE/bad.out")"
    _tamper "$1"
    run bad
    differs "exit code" 0 "$RC"
    equal "what the container says" "" "$(cat "$CASE/bad.out")"
    # crun does not show what a hook says; our log does.
    contains "the log" "$2" "$(tail -n 1 "$LOG")"
    nothing_is_claimed "the failed start"
}

a_node_swapped_after_the_claim_is_caught() {
    _caught '(.linux.devices[] | select(.path == "/dev/neuron1") | .minor) = 9
        | .linux.resources.devices += [{ allow: true, type: "c", major: $neuron, minor: 9, access: "rw" }]' \
        "/dev/neuron1 in the container is device $MAJOR:9"
}

two_nodes_changing_places_are_caught() {
    _caught '.linux.devices |= map(if .path == "/dev/neuron0" then .path = "/dev/neuron1"
        elif .path == "/dev/neuron1" then .path = "/dev/neuron0" else . end)' "/dev/neuron0 in the container is device $MAJOR:5"
}

a_node_added_after_the_claim_is_caught() {
    _caught '.linux.devices += [{ path: "/dev/neuron2", type: "c", major: $neuron, minor: 6 }]' \
        "/dev/neuron2 in the container is device $MAJOR:6"
}

a_node_taken_away_after_the_claim_is_caught() {
    _caught '.linux.devices |= map(select(.path != "/dev/neuron1"))' "/dev/neuron1 in the container is missing"
}

a_mount_swapped_after_the_claim_is_caught_in_a_user_namespace() {
    _caught '(.mounts[] | select(.destination == "/dev/neuron1") | .source) = "\($host)/dev/neuron9"' \
        "/dev/neuron1 in the container is device $MAJOR:9" user_namespace
}

# A node of a free chip, under a name that is none of ours.
another_chips_node_under_another_name_is_caught() {
    _caught '.linux.devices += [{ path: "/dev/accel0", type: "c", major: $neuron, minor: 9 }]
        | .linux.resources.devices += [{ allow: true, type: "c", major: $neuron, minor: 9, access: "rw" }]' "/dev/accel0"
}

# _hook_that_waits: a hook that notes its container's init, and becomes the real one when it is told to.
_hook_that_waits() {
    mkfifo "$CASE/go"
    executable waiting-hook <<<"#!/bin/sh
cat >$CASE/state.json
touch $CASE/in-the-hook
read -r _ <$CASE/go
$WORK/bin/neuron-container-hook \"\$@\" <$CASE/state.json 2>$CASE/hook.err
code=\$?
echo \$code >$CASE/hook.code
mv $CASE/hook.code $CASE/hook-ended
exit \$code"
    settings "hook-path = \"$CASE/waiting-hook\""
}

# The stand-in is exec'd with our arguments but for the stage's name, which is argv[0].
_enter_the_hook() {
    _hook_that_waits
    bundle first "touch /scratch/started; exec sleep 1000" 'ask("all") | .root.readonly = false'
    in_background first "$@"
    within "the runtime is in the hook" test -e "$CASE/in-the-hook"
    INIT=$(jq .pid "$CASE/state.json")
    equal "state and holder of the lease" "claimed $WRAPPER" "$(lease first '"\(.state) \(.holder.pid)"')"
}

_killed_in_the_hook() {
    _enter_the_hook "$@"
    kill_and_wait "$WRAPPER"
    # The hook goes on, as an orphan, and must not bind a lease whose holder is dead.
    echo >"$CASE/go"
    within "the hook ends" test -e "$CASE/hook-ended"
    differs "exit code of the hook" 0 "$(cat "$CASE/hook-ended")"
    within "the init ends" ended "$INIT"
    nothing_is_claimed "the kill"
    [ ! -e "$CASE/rootfs/scratch/started" ] || give_up "expected the container's process not to start, it did"
    settings
    bundle second "true" 'ask("all")'
    run second
    succeeds second
}

a_create_killed_inside_the_hook_leaves_no_init_and_nothing_claimed() {
    _killed_in_the_hook create --bundle "$CASE/first" first
}

a_run_killed_inside_the_hook_leaves_no_init_and_nothing_claimed() {
    _killed_in_the_hook run --bundle "$CASE/first" first
}

a_detached_run_killed_inside_the_hook_leaves_no_init_and_nothing_claimed() {
    _killed_in_the_hook run --detach --bundle "$CASE/first" first
}

# The control for the three above: with nobody killed the same stand-in lets the container start.
a_slow_hook_binds_all_the_same() {
    _enter_the_hook run --bundle "$CASE/first" first
    echo >"$CASE/go"
    within "the container starts" test -e "$CASE/rootfs/scratch/started"
    equal "state of the lease" bound "$(lease first .state)"
    equal "the holder" "$INIT" "$(lease first .holder.pid)"
}

# The chips go to somebody else while the hook hangs: it must find that its lease is gone.
a_hook_that_comes_too_late_does_not_take_the_chips_back() {
    _enter_the_hook create --bundle "$CASE/first" first
    kill_and_wait "$WRAPPER"
    settings
    bundle second "exec sleep 1000" 'ask("all")'
    up second
    echo >"$CASE/go"
    within "the hook ends" test -e "$CASE/hook-ended"
    differs "exit code of the hook" 0 "$(cat "$CASE/hook-ended")"
    equal "who holds chips" "second bound" "$(status | jq -r '.leases[] | "\(.container) \(.state)"')"
}
