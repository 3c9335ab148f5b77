# shellcheck shell=bash
# A lease lives exactly as long as its holder: how containers end, and how creates fail.

a_killed_init_frees_its_chips_for_the_very_next_claim() {
    bundle first "exec sleep 1000" 'ask("all")'
    bundle second "stat -c %t:%T /dev/neuron15" 'ask("all")'
    up first
    local init
    init=$(init_of first)
    equal "the holder" "$init" "$(lease first .holder.pid)"
    equal "its state" bound "$(lease first .state)"
    run second
    equal "exit code of a claim before" 1 "$RC"
    kill_and_wait "$init"
    # No delete, no status: nothing but the claim itself can have freed them.
    run second
    succeeds second
    equal "the last chip" "$HEX:f" "$(cat "$CASE/second.out")"
}

an_init_that_ends_by_itself_frees_its_chips_without_a_delete() {
    bundle first "exit 3" 'ask("all")'
    bundle second "true" 'ask("all")'
    attempt first neuron create --bundle "$CASE/first" first
    succeeds first
    local init
    init=$(init_of first)
    equal "free chips of a container that is created" 0 "$(remaining)"
    neuron start first
    within "the container ends" ended "$init"
    run second
    succeeds second
}

# Without a pid namespace of its own (--pid=host) nothing ends the children of an init that ends.
a_child_that_outlives_the_init_keeps_the_chips() {
    bundle first "sleep 1000 & echo started; exit 0" 'ask("16") | without_namespace("pid")'
    bundle second "true" 'ask("16")'
    attempt first neuron create --bundle "$CASE/first" first
    succeeds first
    local init child
    init=$(init_of first)
    neuron start first
    within "the init ends" ended "$init"
    equal "free chips while the child lives" 0 "$(remaining)"
    run second
    refused second "asked for 16 Neuron chips, 0 of 16 are free: 0-15 held by first"
    child=$(_processes first)
    equal "processes that are left" 1 "$(wc -w <<<"$child")"
    kill_and_wait "$child"
    # A dead process stays in its cgroup until its parent has asked for it.
    within "the cgroup is empty" _is_empty first
    run second
    succeeds second
}

# The pids in the container's cgroup, on v2 or on v1.
_processes() {
    cat "/sys/fs/cgroup/$GROUP/$1/cgroup.procs" 2>/dev/null || cat "/sys/fs/cgroup/devices/$GROUP/$1/cgroup.procs"
}

_is_empty() {
    [ -z "$(_processes "$1")" ]
}

a_paused_container_keeps_its_chips() {
    bundle first "exec sleep 1000" 'ask("4")'
    up first
    neuron pause first
    equal "free chips" 12 "$(remaining)"
    neuron resume first
    equal "chips" 0,1,2,3 "$(chips first)"
}

a_create_that_fails_for_want_of_a_root_leaves_nothing_claimed() {
    bundle bad "true" 'ask("all") | .root.path = "missing"'
    run bad
    differs "exit code" 0 "$RC"
    nothing_is_claimed "the failed create"
}

# runc and crun find it in create or in start, depending on their version.
a_bad_executable_leaves_nothing_claimed() {
    bundle bad "true" 'ask("all") | .process.args = ["/bin/not-there"]'
    attempt bad neuron create --bundle "$CASE/bad" bad
    if [ "$RC" = 0 ]; then
        local init
        init=$(init_of bad)
        attempt start neuron start bad
        within "the init ends" ended "$init"
    fi
    differs "exit code" 0 "$RC"
    nothing_is_claimed "the failed start"
}

a_bundle_run_again_gets_chips_anew() {
    bundle twice "stat -c %t:%T /dev/neuron*" 'ask("2") | .process.env += ["NEURON_RT_NUM_CORES=3"]'
    bundle fresh "stat -c %t:%T /dev/neuron*" 'ask("2") | .process.env += ["NEURON_RT_NUM_CORES=3"]'
    bundle between "exec sleep 1000" 'ask("2")'
    run twice
    succeeds twice
    equal "chips of the first run" "$HEX:0 $HEX:1" "$(xargs <"$CASE/twice.out")"
    up between
    run twice
    succeeds twice
    equal "chips of the second run" "$HEX:2 $HEX:3" "$(xargs <"$CASE/twice.out")"
    run fresh
    succeeds fresh
    # Nothing is left of the first edit: a bundle that is edited for the first time looks the same, but for lease and name.
    equal "config.json" "$(_without_names fresh)" "$(_without_names twice)"
}

_without_names() {
    local lease
    lease=$(jq -r '.annotations["neuron-container-runtime.lease"]' "$CASE/$1/config.json")
    equal "length of the lease's id in $1" 16 "${#lease}"
    sed -e "s/$lease/LEASE/g" -e "s#$GROUP/$1#GROUP#" "$CASE/$1/config.json"
}

a_bundle_whose_container_runs_is_refused_and_the_container_keeps_its_chips() {
    bundle first "exec sleep 1000" 'ask("2")'
    up first
    local before init
    before=$(status | jq -c .leases)
    init=$(init_of first)
    attempt second neuron run --bundle "$CASE/first" second
    refused second first "$init"
    equal "leases" "$before" "$(status | jq -c .leases)"
    equal "state of the first container" running "$(neuron state first | jq -r .status)"
    # Its config.json is still the one of its lease, so that a third try is refused too.
    attempt third neuron run --bundle "$CASE/first" third
    refused third first "$init"
}

# The low-level runtime that the wrapper becomes: here one that waits.
a_wrapper_killed_before_create_leaves_nothing_claimed() {
    mkfifo "$CASE/never"
    executable waiting <<<"#!/bin/sh
read -r _ <$CASE/never"
    settings "runtimes = [\"$CASE/waiting\"]"
    bundle first "true" 'ask("16")'
    bundle second "true" 'ask("16")'
    in_background first create --bundle "$CASE/first" first
    within "the claim is in the ledger" _is_claimed first
    settings
    # exec keeps the pid.
    within "the wrapper has become the runtime" _is_script "$WRAPPER" "$CASE/waiting"
    equal "the holder" "$WRAPPER" "$(lease first .holder.pid)"
    run second
    refused second "asked for 16 Neuron chips, 0 of 16 are free: 0-15 held by first"
    kill_and_wait "$WRAPPER"
    run second
    succeeds second
}

_is_claimed() {
    [ "$(lease "$1" .state)" = claimed ]
}

# Does the process run this script?
_is_script() {
    [ "$(tr '\0' '\n' <"/proc/$1/cmdline" | sed -n 2p)" = "$2" ]
}

sixteen_of_thirty_two_creates_at_once_get_a_chip_each() {
    local n codes=() pids=() started=0
    for n in {1..32}; do
        bundle "c$n" "stat -c %t:%T /dev/neuron*; exec sleep 1000" 'ask("1")'
    done
    for n in {1..32}; do
        in_background "c$n" create --bundle "$CASE/c$n" "c$n"
        pids+=("$WRAPPER")
    done
    for n in {1..32}; do
        codes[n]=0
        wait "${pids[n - 1]}" || codes[n]=$?
    done
    for n in {1..32}; do
        if [ "${codes[n]}" = 0 ]; then
            started=$((started + 1))
            neuron start "c$n"
        else
            RC=${codes[n]}
            refused "c$n" "asked for 1 Neuron chip, 0 of 16 are free"
        fi
    done
    equal "containers" 16 "$started"
    within "each says which chip it has" _sixteen_lines
    equal "their chips" "$(for n in {0..15}; do printf "$HEX:%x\n" "$n"; done | sort | xargs)" "$(cat "$CASE"/c*.out | sort | xargs)"
    equal "chips by lease" "$(seq 0 15 | xargs)" "$(status | jq '.leases[].chips[]' | sort -n | xargs)"
    equal "states" bound "$(status | jq -r '.leases[].state' | sort -u)"
}

_sixteen_lines() {
    [ "$(cat "$CASE"/c*.out | wc -l)" = 16 ]
}
