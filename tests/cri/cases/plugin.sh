# shellcheck shell=bash
# Device nodes that are in a container's spec without a request of ours.

# Chips 4 and 5 of the host, renumbered as AWS's plugin does, with the variable that it sets.
_FOUR_AND_FIVE='.devices = {"/dev/neuron0": "/dev/neuron4", "/dev/neuron1": "/dev/neuron5"}
    | .env = {"AWS_NEURON_VISIBLE_DEVICES": "4,5"}'

nodes_of_a_device_plugin_are_adopted_and_given_to_nobody_else() {
    pod plugin
    up plugin main "$_FOUR_AND_FIVE"
    equal "the lease" "adopted bound 4,5" "$(lease_of plugin main '"\(.mode) \(.state) \(.chips | map(tostring) | join(","))"')"
    equal "states of chips 3 to 6" "free adopted adopted free" "$(status | jq -r '.chips[3:7][].state' | xargs)"
    equal "the table" adopted "$("$WORK/bin/neuron-ctk" status | awk '$1 == "4-5" { print $3 }')"
    equal "nodes" "/dev/neuron0=$HEX:4 /dev/neuron1=$HEX:5" "$(nodes plugin main)"
    equal "chip 4 opened" "No such device or address" "$(inside plugin main 'sh -c ": <>/dev/neuron0" 2>&1 | sed "s/.*: //"')"
    # What the plugin set stays as it is, and nothing joins it.
    equal "AWS_NEURON_VISIBLE_DEVICES" 4,5 "$(variable plugin main AWS_NEURON_VISIBLE_DEVICES)"
    equal "NEURON_RT_NUM_CORES" "" "$(variable plugin main NEURON_RT_NUM_CORES)"

    pod all neuron=16
    create all main 'exec sleep 1000'
    start all main
    refused all main "asked for 16 Neuron chips, 14 of 16 are free: 4-5 " "default/plugin/main"
    pod four neuron=id:4
    create four main 'exec sleep 1000'
    start four main
    refused four main "chip 4" "default/plugin/main"

    kill_and_wait "$(pid plugin main)"
    nobody_has_chips "after the plugin's container was killed"
}

nodes_of_a_device_plugin_start_even_where_the_chips_are_held() {
    pod asks neuron=id:4-5
    up asks main
    pod plugin
    up plugin main "$_FOUR_AND_FIVE"
    equal "nodes" "/dev/neuron0=$HEX:4 /dev/neuron1=$HEX:5" "$(nodes plugin main)"
    equal "how many have chip 4" 2 "$(status | jq '.chips[4].containers | length')"
    contains "the table" conflict "$("$WORK/bin/neuron-ctk" status)"
}

# Pods of the plugin name no RuntimeClass.
the_default_runtime_records_the_nodes_too() {
    configure containerd --default
    kill_and_wait "$DAEMON"
    start_engine
    sandbox_of "" plugin
    up plugin main "$_FOUR_AND_FIVE"
    equal "the lease" "adopted bound 4,5" "$(lease_of plugin main '"\(.mode) \(.state) \(.chips | map(tostring) | join(","))"')"
}

# As monitors are, which run on every node.
a_privileged_container_has_all_nodes_and_counts_for_none() {
    pod monitor '.privileged = true'
    up monitor main
    equal "nodes" 16 "$(nodes monitor main | wc -w)"
    nobody_has_chips "beside a privileged container"
    # With a request it sees its own.
    pod asks '.privileged = true' neuron=2
    up asks main
    equal "nodes of one that asks" "/dev/neuron0=$HEX:0 /dev/neuron1=$HEX:1" "$(nodes asks main)"
}

# One pod on a node with plugin and wrapper has either.
nodes_of_a_device_plugin_beside_a_request_are_refused() {
    pod both neuron=2
    create both main 'exec sleep 1000' "$_FOUR_AND_FIVE"
    start both main
    refused both main "/dev/neuron0" "aws.amazon.com/neuron"
    nobody_has_chips "after the refusal"
}
