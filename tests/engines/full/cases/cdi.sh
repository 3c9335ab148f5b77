# shellcheck shell=bash
# Devices by name, as `neuron-ctk cdi` describes them: nothing but its document tells the engine where they are.

_described() {
    in_root "$WORK/bin/neuron-ctk" --host-root "$HOST" cdi --output /etc/cdi/aws.amazon.com-neuron.json >/dev/null
}

a_cdi_device_is_given_and_recorded() {
    _described
    up first "" --device aws.amazon.com/neuron=3 --device aws.amazon.com/neuron=5 -- sleep 1000
    equal "the nodes" "/dev/neuron3=$HEX:3 /dev/neuron5=$HEX:5" "$(nodes first)"
    contains "what opening one says" "No such device or address" "$(inside first ': </dev/neuron3' || true)"
    # Without the wrapper nobody sees which devices a container has.
    case $ENGINE in *-hook-*) return ;; esac
    equal "the lease" "adopted [3,5]" "$(lease_of first '"\(.mode) \(.chips)"')"
    run second id:3 -- true
    refused second "chip 3 is held by"
}

all_chips_are_a_cdi_device_too() {
    _described
    up first "" --device aws.amazon.com/neuron=all -- sleep 1000
    equal "how many nodes" 16 "$(nodes first | wc -w)"
}
