# shellcheck shell=bash
# Who asks for chips in a pod, and what they find.

# opens POD CONTAINER MINOR: what opening the container's first chip gives, and opening the host's chip MINOR by a node of its own making.
_opens() {
    inside "$1" "$2" "sh -c ': <>/dev/neuron0' 2>&1 | sed 's/.*: //'
        mknod /tmp/other c $((0x$HEX)) $3 && sh -c ': <>/tmp/other' 2>&1 | sed 's/.*: //'"
}

a_pod_annotation_reaches_its_container() {
    pod first neuron=2
    up first main
    equal "nodes" "/dev/neuron0=$HEX:0 /dev/neuron1=$HEX:1" "$(nodes first main)"
    equal "its own chip, another's" "No such device or address Operation not permitted" "$(_opens first main 7)"
    equal "AWS_NEURON_VISIBLE_DEVICES" 0,1 "$(variable first main AWS_NEURON_VISIBLE_DEVICES)"
    equal "NEURON_RT_NUM_CORES" 4 "$(variable first main NEURON_RT_NUM_CORES)"
    # CAP_IPC_LOCK is bit 14.
    equal "IPC_LOCK" 1 "$((0x$(awk '$1 == "CapEff:" { print $2 }' "/proc/$(pid first main)/status") >> 14 & 1))"
    equal "the variables that kubectl exec sees" "0,1 4" "$(inside first main 'echo "$AWS_NEURON_VISIBLE_DEVICES" "$NEURON_RT_NUM_CORES"')"
    equal "the lease" "exclusive bound $(pid first main)" "$(lease_of first main '"\(.mode) \(.state) \(.holder.pid)"')"
    # The next pod has other chips, under the same names.
    pod second neuron=2
    up second main
    equal "nodes of the next pod" "/dev/neuron0=$HEX:2 /dev/neuron1=$HEX:3" "$(nodes second main)"
    equal "its AWS_NEURON_VISIBLE_DEVICES" 2,3 "$(variable second main AWS_NEURON_VISIBLE_DEVICES)"
    equal "free chips" 12 "$(remaining)"
}

a_sandbox_asks_for_nothing() {
    pod alone neuron=16
    nobody_has_chips "beside a sandbox"
    local config=$ROOT/run/containerd/io.containerd.runtime.v2.task/k8s.io/${ID[alone]}/config.json
    equal "the annotation in the sandbox's spec" 16 "$(jq -r '.annotations["aws.amazon.com/neuron"]' "$config")"
    equal "hooks in the sandbox's spec" null "$(jq .hooks "$config")"
    # And it holds none that its containers could have.
    up alone main
    equal "chips" 0-15 "$(lease_of alone main '"\(.chips[0])-\(.chips[15])"')"
}

a_key_by_name_asks_for_that_container_only() {
    pod shared neuron.main=2 neuron=4
    create shared prepare 'for node in /dev/neuron*; do [ ! -e "$node" ] || exit 3; done'
    start shared prepare
    succeeds shared.prepare
    within "the init container ends" _has_ended shared prepare
    equal "the init container, which saw no chip" "exited 0" "$(state shared prepare)"
    up shared sidecar
    up shared main
    equal "chips of the sidecar" none "$(chips_of shared sidecar)"
    equal "nodes of the sidecar" "" "$(nodes shared sidecar)"
    equal "nodes of the container" "/dev/neuron0=$HEX:0 /dev/neuron1=$HEX:1" "$(nodes shared main)"
    equal "free chips" 14 "$(remaining)"
}

_has_ended() {
    case $(state "$1" "$2") in exited*) ;; *) false ;; esac
}

the_bare_key_asks_for_each_container_and_an_init_container_gives_back() {
    pod greedy neuron=8
    create greedy prepare 'exit 0'
    start greedy prepare
    succeeds greedy.prepare
    within "the init container ends" _has_ended greedy prepare
    up greedy main
    up greedy sidecar
    equal "chips of the container" 0,1,2,3,4,5,6,7 "$(chips_of greedy main)"
    equal "chips of the sidecar" 8,9,10,11,12,13,14,15 "$(chips_of greedy sidecar)"
}

a_variable_that_a_device_plugin_sets_is_no_request() {
    pod informed
    up informed main '.env = {"AWS_NEURON_VISIBLE_DEVICES": "0,1"}'
    equal "nodes" "" "$(nodes informed main)"
    equal "the variable" 0,1 "$(variable informed main AWS_NEURON_VISIBLE_DEVICES)"
    nobody_has_chips "beside a container with the variable"
}

a_request_that_does_not_fit_is_the_error_of_start_and_fits_later() {
    pod first neuron=12
    up first main
    pod second neuron=8
    create second main 'exec sleep 1000'
    start second main
    local held="asked for 8 Neuron chips, 4 of 16 are free: 0-11 held by default/first/main"
    refused second main "$held" "neuron-ctk status"
    equal "chips of the refused" none "$(chips_of second main)"
    # The kubelet makes the container anew, in the same sandbox.
    cri stop "${ID[first/main]}"
    up second main '.attempt = 1'
    equal "chips of the second attempt" 0,1,2,3,4,5,6,7 "$(chips_of second main)"
}

a_request_that_may_wait_is_served_when_chips_come_free() {
    pod first neuron=16
    up first main
    pod second neuron.main=4 neuron.wait=50s
    create second main 'exec sleep 1000'
    cri start "${ID[second/main]}" 2>"$CASE/second.main.err" &
    local call=$!
    within "the second stands in the queue" _is_in_line second main
    kill_and_wait "$(pid first main)"
    RC=0
    wait "$call" || RC=$?
    succeeds second.main
    equal "chips of the one that waited" 0,1,2,3 "$(chips_of second main)"
}

_is_in_line() {
    [ "$(jq -r '.queue[0].container' "$HOST/run/neuron-container-runtime/ledger.json")" = "${ID[$1/$2]}" ]
}

a_request_that_never_fits_says_so() {
    pod big neuron=17
    create big main 'exec sleep 1000'
    start big main
    refused big main "asked for 17 Neuron chips" "16"
    pod junk neuron=two
    create junk main 'exec sleep 1000'
    start junk main
    refused junk main 'aws.amazon.com/neuron' '"two"'
    nobody_has_chips "after the refusals"
}

a_pod_without_the_runtime_class_gets_nothing() {
    sandbox_of "" plain neuron=2
    up plain main
    equal "nodes" "" "$(nodes plain main)"
    nobody_has_chips "beside a pod of the default runtime"
    # The log is not even begun: the wrapper was not called.
    [ ! -e "$LOG" ] || give_up "the wrapper's log: expected none, found [$(cat "$LOG")]"
}

sixteen_of_eighteen_containers_started_at_once_get_a_chip_each() {
    local n started=0 calls=()
    pod crowd neuron=1
    for n in {1..18}; do
        create crowd "c$n" 'exec sleep 1000'
    done
    for n in {1..18}; do
        cri start "${ID[crowd/c$n]}" 2>"$CASE/crowd.c$n.err" &
        calls[n]=$!
    done
    for n in {1..18}; do
        RC=0
        wait "${calls[n]}" || RC=$?
        if [ "$RC" = 0 ]; then
            started=$((started + 1))
        else
            refused crowd "c$n" "asked for 1 Neuron chip, 0 of 16 are free"
        fi
    done
    equal "containers that run" 16 "$started"
    equal "chips by lease" "$(seq 0 15 | xargs)" "$(status | jq '.leases[].chips[]' | sort -n | xargs)"
}
