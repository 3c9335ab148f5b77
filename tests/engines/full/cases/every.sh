# shellcheck shell=bash
# What every engine does alike.

two_free_neighbouring_chips() {
    up first any:2 -- sleep 1000
    equal "the nodes" "/dev/neuron0=$HEX:0 /dev/neuron1=$HEX:1" "$(nodes first)"
    equal "the chips' ids" 0,1 "$(variable first AWS_NEURON_VISIBLE_DEVICES)"
    equal "their cores" 4 "$(variable first NEURON_RT_NUM_CORES)"
    contains "what opening a chip says" "No such device or address" "$(inside first ': </dev/neuron1' || true)"
    can_lock_memory first || give_up "expected CAP_IPC_LOCK in the container, found none"
    equal "the holder" "bound $(init_of first)" "$(lease_of first '"\(.state) \(.holder.pid)"')"
    up second any:2 -- sleep 1000
    equal "the second container's nodes" "/dev/neuron0=$HEX:2 /dev/neuron1=$HEX:3" "$(nodes second)"
}

all_chips() {
    up first all -- sleep 1000
    equal "nodes" 16 "$(nodes first | wc -w)"
    equal "free chips" 0 "$(remaining)"
}

chips_by_their_ids() {
    up first id:4-6 -- sleep 1000
    equal "the nodes" "/dev/neuron0=$HEX:4 /dev/neuron1=$HEX:5 /dev/neuron2=$HEX:6" "$(nodes first)"
    run second id:6-7 -- true
    refused second "chip 6 is held by $(id_of first | cut -c 1-12)"
}

who_asks_for_nothing_gets_nothing() {
    up first "" -- sleep 1000
    equal "the nodes" "" "$(nodes first)"
    nothing_is_claimed "a container without a request"
}

the_engine_shows_why_a_request_is_refused() {
    up first id:0-7 -- sleep 1000
    run second any:16 -- true
    refused second "asked for 16 Neuron chips, 8 of 16 are free: 0-7 held by $(id_of first | cut -c 1-12)"
    equal "leases" 1 "$(status | jq '.leases | length')"
}

a_container_killed_by_its_pid_gives_its_chips_to_the_next() {
    up first all -- sleep 1000
    kill_and_wait "$(init_of first)"
    up second all -- sleep 1000
    equal "nodes" 16 "$(nodes second | wc -w)"
}

# What an engine does with the container of a dead monitor is its own affair; the chips go with the container.
chips_go_with_the_container_not_with_its_monitor() {
    up first all -- sleep 1000
    local init monitor left
    init=$(init_of first)
    monitor=$(parent_of "$init")
    kill_and_wait "$monitor"
    left=$(remaining)
    # Asked after the chips: a container that lives now lived then.
    ended "$init" || equal "free chips while the container lives" 0 "$left"
    ended "$init" || kill -KILL "$init"
    within "the chips come free" all_are_free
}

a_create_that_fails_after_the_claim_holds_nothing() {
    run first all -- /no/such/program
    differs "exit code of a program that is not there" 0 "$RC"
    nothing_is_claimed "a container that could not start"
}

# Each attempt notes its own exit code.
_one_of_many() {
    attempt "$1" launch_detached "$1" any:1 -- sleep 1000
    echo "$RC" >"$CASE/$1.code"
}

thirty_two_at_once_on_sixteen_chips() {
    local number pids=()
    for number in {1..32}; do
        _one_of_many "many$number" &
        pids+=($!)
    done
    wait "${pids[@]}"
    equal "containers that started" 16 "$(grep -lx 0 "$CASE"/many*.code | wc -l)"
    equal "containers that were refused in our words" 16 "$(grep -l 'asked for 1 Neuron chip, 0 of 16 are free' "$CASE"/many*.err | wc -l)"
    equal "chips held, each once" "$(seq -s ' ' 0 15)" "$(status | jq -r '[.leases[].chips[]] | sort | join(" ")')"
}
