# shellcheck shell=bash
# containerd by its own client, ctr: nothing to configure, the wrapper is named in each command.

# shellcheck disable=SC2034 # For the cases.
REFUSED=1

start_engine() {
    spare_weights
    daemon containerd
    within "containerd answers" answers
    oci_image bb "$CASE/image.tar"
    ctr image import "$CASE/image.tar" >/dev/null
}

answers() {
    ctr version >/dev/null 2>&1
}

ctr() {
    in_root ctr "$@"
}

launch() {
    _ctr_run --rm "$@"
}

launch_detached() {
    _ctr_run --detach "$@"
}

_ctr_run() {
    local how=$1 name=$2 ask=$3 flags command
    shift 3
    split "$@"
    [ -z "$ask" ] || flags+=(--annotation "aws.amazon.com/neuron=$ask")
    ctr run "$how" --runc-binary "$WORK/bin/neuron-container-runtime" --cgroup "/$GROUP/$name" "${flags[@]}" bb "$name" "${command[@]}"
}

id_of() {
    echo "$1"
}

init_of() {
    ctr task list | awk -v name="$1" '$1 == name { print $2 }'
}

# A session may end before ctr has copied all that it wrote: then the last word is missing, and it is asked again.
# Both outputs go by one stream, for the last word of one proves nothing of the other.
inside() {
    local said rc
    for _ in 1 2 3 4 5 6 7 8; do
        rc=0
        said=$(ctr task exec --exec-id "session-$RANDOM" "$1" sh -c "($2) 2>&1; rc=\$?; echo; echo said; exit \$rc" 2>&1) || rc=$?
        case $said in
            *said) echo "${said%said}" && return "$rc" ;;
        esac
    done
    give_up "expected what a session wrote, and ctr lost it eight times"
}
