# shellcheck shell=bash
# What `docker` and `podman` have alike beyond starting and stopping: options of `run`, and restarts.

another_user_than_root_can_open_its_chips() {
    up first any:1 --user 1000 -- sleep 1000
    equal "who it is" 1000 "$(awk '$1 == "Uid:" { print $3 }' "/proc/$(init_of first)/status")"
    can_lock_memory first || give_up "expected CAP_IPC_LOCK for another user, found none"
    contains "what opening a chip says" "No such device or address" "$(inside first ': </dev/neuron0' || true)"
}

a_container_in_the_hosts_pid_namespace_holds_them_too() {
    up first all --pid=host -- sleep 1000
    equal "free chips" 0 "$(remaining)"
    kill_and_wait "$(init_of first)"
    within "the chips come free" all_are_free
}

a_device_given_by_hand_is_taken() {
    up first "" --device /dev/neuron3 -- sleep 1000
    equal "the lease" "adopted 3" "$(lease_of first '"\(.mode) \(.chips[0])"')"
    run second id:3 -- true
    refused second "chip 3 is held by $(id_of first | cut -c 1-12)"
}

a_restart_asks_anew() {
    up first any:2 -- sleep 1000
    local before
    before=$(init_of first)
    client restart --time 0 first >/dev/null
    differs "the container's process" "$before" "$(init_of first)"
    equal "the nodes" "/dev/neuron0=$HEX:0 /dev/neuron1=$HEX:1" "$(nodes first)"
    equal "the holder" "$(init_of first)" "$(lease_of first .holder.pid)"
    equal "free chips" 14 "$(remaining)"
}
