# shellcheck shell=bash
# A Docker in a container of Docker's: another pid namespace, the same chips, one ledger.

_inner() {
    docker exec --env PATH=/usr/sbin:/usr/bin:/sbin:/bin outer docker --host unix:///run/inner.sock "$@"
}

_inner_answers() {
    _inner version >/dev/null 2>&1
}

# The inner daemon finds programs, settings and the ledger where the outer one does; what it writes is its own.
_outer() {
    jq -n '{bridge: "none", iptables: false, "ip-forward": false, "storage-driver": "vfs", hosts: ["unix:///run/inner.sock"]}' >"$CASE/inner.json"
    configure docker --config "$CASE/inner.json" >"$CASE/configure-inner.out"
    local folder mounts=()
    for folder in bin sbin lib lib64 usr etc "${CASE#/}" "${WORK#/}/bin"; do
        mounts+=(--volume "/$folder:/$folder")
    done
    docker run --detach --name outer --privileged --network none --env PATH=/usr/sbin:/usr/bin:/sbin:/bin --tmpfs /run --tmpfs /var/lib/docker:exec "${mounts[@]}" bb \
        dockerd --config-file "$CASE/inner.json" >/dev/null
    within "the inner dockerd answers" _inner_answers
    tar -C "$CASE/rootfs" -c . >"$CASE/bb.tar"
    _inner import --change 'ENV PATH=/bin' "$CASE/bb.tar" bb >/dev/null
}

a_docker_in_a_docker_shares_the_ledger_and_its_chips_come_back_when_it_dies() {
    _outer
    attempt within _inner run --detach --name first --runtime neuron --network none --annotation aws.amazon.com/neuron=2 bb sleep 1000
    succeeds within
    equal "leases" "0,1" "$(status | jq -r '[.leases[].chips | map(tostring) | join(",")] | join(" ")')"
    differs "the pid namespace of its holder" "$(readlink /proc/self/ns/pid | tr -dc 0-9)" "$(status | jq '.leases[0].holder.pidns')"
    run second any:16 -- true
    refused second "asked for 16 Neuron chips, 14 of 16 are free: 0-1 held by"
    docker kill outer >/dev/null
    up third any:16 -- sleep 1000
}
