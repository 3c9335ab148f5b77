# shellcheck shell=bash
# Device nodes that the spec already has (--device /dev/neuron3): recorded, and never a reason for a container not to start.

_opens() {
    echo "stat -c %t:%T $1; sh -c ': <>$1' 2>&1 | sed 's/.*: //'; exec sleep 1000"
}

# _says NAME CHIP: the container has this chip's node and may open it.
_says() {
    within "$1 says what it has" _two_lines "$1"
    equal "what $1 says" "$HEX:$2 No such device or address" "$(xargs <"$CASE/$1.out")"
}

_two_lines() {
    [ "$(wc -l <"$CASE/$1.out")" = 2 ]
}

manual_nodes_are_adopted_and_given_to_nobody_else() {
    bundle hand "$(_opens /dev/neuron3)" 'device("/dev/neuron3"; $neuron; 3)'
    bundle asks "true" 'ask("id:3")'
    bundle all "true" 'ask("16")'
    up hand
    _says hand 3
    equal "mode, state and chips" "adopted bound 3" "$(lease hand '"\(.mode) \(.state) \(.chips[0])"')"
    equal "state of chip 3" adopted "$(status | jq -r '.chips[3].state')"
    equal "the holder" "$(init_of hand)" "$(lease hand .holder.pid)"
    run asks
    refused asks "chip 3" hand
    run all
    refused all "asked for 16 Neuron chips, 15 of 16 are free: 3 "
    kill_and_wait "$(init_of hand)"
    run all
    succeeds all
}

manual_nodes_are_known_by_their_numbers() {
    bundle hand "$(_opens /dev/accel0)" 'device("/dev/accel0"; $neuron; 12)'
    up hand
    _says hand c
    equal "chips" 12 "$(chips hand)"
}

# Nothing but the hook is added: no environment, no capability, no rule.
manual_nodes_change_nothing_but_the_hook() {
    bundle hand "true" 'device("/dev/neuron3"; $neuron; 3)'
    jq . "$CASE/hand/config.json" >"$CASE/before.json"
    run hand
    succeeds hand
    equal "hooks" '["createRuntime"]' "$(jq -c '.hooks | keys' "$CASE/hand/config.json")"
    equal "the rest" "$(cat "$CASE/before.json")" "$(jq 'del(.hooks, .annotations)' "$CASE/hand/config.json")"
}

a_manual_node_of_a_held_chip_starts_all_the_same() {
    bundle first "exec sleep 1000" 'ask("id:3")'
    bundle hand "$(_opens /dev/neuron3)" 'device("/dev/neuron3"; $neuron; 3)'
    up first
    up hand
    _says hand 3
    equal "who has chip 3" '["first","hand"]' "$(status | jq -c '.chips[3].containers | sort')"
    equal "state of chip 3" held "$(status | jq -r '.chips[3].state')"
    contains "the table" conflict "$("$WORK/bin/neuron-ctk" status)"
}

a_manual_node_on_a_broken_host_starts_all_the_same() {
    bundle hand "$(_opens /dev/neuron3)" 'device("/dev/neuron3"; $neuron; 3)'
    mkdir -p "$HOST/run/neuron-container-runtime"
    echo junk >"$HOST/run/neuron-container-runtime/ledger.json"
    up hand
    _says hand 3
    equal "its stderr" "" "$(cat "$CASE/hand.err")"
    contains "our log" ledger "$(tail -n 1 "$LOG")"
}

# The ledger breaks between claim and bind.
a_manual_node_whose_bind_fails_starts_all_the_same() {
    executable breaking <<<"#!/bin/sh
echo junk >$HOST/run/neuron-container-runtime/ledger.json
exec $RUNTIME \"\$@\""
    settings "runtimes = [\"$CASE/breaking\"]"
    bundle hand "$(_opens /dev/neuron3)" 'device("/dev/neuron3"; $neuron; 3)'
    up hand
    _says hand 3
    # And for chips that were granted the same is fatal.
    rm "$HOST/run/neuron-container-runtime/ledger.json"
    bundle asks "echo started" 'ask("1")'
    run asks
    differs "exit code" 0 "$RC"
    equal "what the container says" "" "$(cat "$CASE/asks.out")"
}

exclusive_manual_nodes_are_a_request() {
    settings 'manual-devices = "exclusive"'
    bundle first "exec sleep 1000" 'ask("id:3")'
    bundle hand "$(_opens /dev/neuron3)" 'device("/dev/neuron3"; $neuron; 3)'
    up first
    run hand
    refused hand "chip 3 is held by first"
    kill_and_wait "$(init_of first)"
    up hand
    _says hand 3
    equal "mode" exclusive "$(lease hand .mode)"
}

manual_nodes_beside_a_request_are_refused() {
    bundle both "true" 'ask("2") | device("/dev/neuron3"; $neuron; 3)'
    run both
    refused both "/dev/neuron3" "aws.amazon.com/neuron"
    nothing_is_claimed "the refusal"
}
