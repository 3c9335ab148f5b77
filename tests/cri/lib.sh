# shellcheck shell=bash
# What these cases are made of, beside the checks of ../engines/lib.sh: a containerd in a root of its own, pods and containers.
#
# From ./case: WORK (the folder of the whole run), GROUP (the name of all cgroups), CASE and HOST; from ./run: ENGINE_ROOT.

# shellcheck source=SCRIPTDIR/../engines/root.sh disable=SC2153 # FOLDER is set.
. "$FOLDER/../engines/root.sh"

SOCKET=$ROOT/run/containerd/containerd.sock
IMAGE=localhost/busybox:1

prepare() {
    prepare_cgroups
    prepare_root
    configure_engine
    spare_weights
    start_engine
    busybox_root
    # An image that all containers run, the sandboxes too.
    oci_image "$IMAGE" "$CASE/image.tar"
    in_root ctr --namespace k8s.io images import "$CASE/image.tar"
    within "containerd's CRI knows the image" cri has-image "$IMAGE"
}

# Processes and cgroups are swept by name; mounts go with the namespace.
end_containers() {
    :
}

# The config.toml that is there before, as the package leaves it; the runtime entered as docs/kubernetes.md says; then what this
# machine needs: an image that need not be pulled, and no oom_score_adj below the engine's own, for which root must have
# CAP_SYS_RESOURCE.
configure_engine() {
    local file=$ROOT/etc/containerd/config.toml
    case $(engine_version) in
    1.*)
        configure containerd
        into_table '[plugins."io.containerd.grpc.v1.cri"]' "$file" "sandbox_image = \"$IMAGE\"" 'restrict_oom_score_adj = true'
        ;;
    *)
        printf '%s\n' 'version = 3' 'imports = ["/etc/containerd/conf.d/*.toml"]' >"$file"
        configure containerd
        into_table '[plugins."io.containerd.cri.v1.images".pinned_images]' "$file" "sandbox = \"$IMAGE\""
        into_table '[plugins."io.containerd.cri.v1.runtime"]' "$file" 'restrict_oom_score_adj = true'
        ;;
    esac
}

engine_version() {
    local version
    version=$(in_root containerd --version | cut -d ' ' -f 3)
    echo "${version#v}"
}

# into_table HEADER FILE LINE…: adds lines to a table of a TOML file, which may not be there yet.
into_table() {
    local header=$1 file=$2 line
    shift 2
    grep -qF "$header" "$file" || echo "$header" >>"$file"
    for line; do
        awk -v header="$header" -v line="$line" '{ print } index($0, header) { print line }' "$file" >"$file.new"
        mv "$file.new" "$file"
    done
}

start_engine() {
    daemon containerd
    within "containerd answers" answers
}

answers() {
    cri version >/dev/null 2>&1
}

cri() {
    "$WORK/bin/cri-client" "$SOCKET" "$@"
}

# pod NAME [ANNOTATION…] [FILTER]: a sandbox under the RuntimeClass; its id in ID_NAME. An annotation is KEY=VALUE, without
# "aws.amazon.com/"; a filter begins with "." and changes the JSON that ../src/pod.rs reads.
pod() {
    sandbox_of neuron "$@"
}

sandbox_of() {
    local handler=$1 name=$2 annotation filter=.
    shift 2
    local annotations='{}'
    for annotation; do
        case $annotation in
        .*) filter=$annotation ;;
        *) annotations=$(jq -c --arg key "aws.amazon.com/${annotation%%=*}" --arg value "${annotation#*=}" '.[$key] = $value' <<<"$annotations") ;;
        esac
    done
    jq -n --arg name "$name" --arg cgroup "/$GROUP/$name" --argjson annotations "$annotations" \
        "{name: \$name, cgroup: \$cgroup, annotations: \$annotations} | $filter" >"$CASE/$name.pod"
    attempt "$name" cri run-pod "$handler" "$CASE/$name.pod"
    succeeds "$name"
    ID[$name]=$(cat "$CASE/$name.out")
}

# Ids of sandboxes by POD, of containers by POD/CONTAINER.
declare -A ID

# create POD CONTAINER SCRIPT [FILTER]: a container that runs the shell script.
create() {
    local file=$CASE/$1.$2
    jq -n --arg name "$2" --arg image "$IMAGE" --arg script "$3" \
        "{name: \$name, image: \$image, command: [\"sh\", \"-c\", \$script]} | ${4:-.}" >"$file.container"
    attempt "$1.$2" cri create "${ID[$1]}" "$CASE/$1.pod" "$file.container"
    succeeds "$1.$2"
    ID[$1/$2]=$(cat "$file.out")
}

# start POD CONTAINER: whatever comes of it.
start() {
    attempt "$1.$2" cri start "${ID[$1/$2]}"
}

# up POD CONTAINER [FILTER]: a container that goes on.
up() {
    create "$1" "$2" "exec sleep 1000" "${3:-.}"
    start "$1" "$2"
    succeeds "$1.$2"
}

# refused POD CONTAINER PART…: the engine did not start the container, and all these parts are in what it said.
refused() {
    local what=$1.$2 part said
    said=$(cat "$CASE/$1.$2.err")
    shift 2
    equal "exit code of start $what, which said [$said]" 1 "$RC"
    for part in "$@"; do
        contains "the error of the engine for $what" "$part" "$said"
    done
}

# inside POD CONTAINER SCRIPT: what the shell script says in there, by the way of "kubectl exec", on one line.
inside() {
    cri exec "${ID[$1/$2]}" sh -c "$3" 2>&1 | xargs
}

# The nodes in the container, and which chips they are.
nodes() {
    inside "$1" "$2" 'for node in /dev/neuron*; do [ ! -e "$node" ] || stat -c "%n=%t:%T" "$node"; done'
}

state() {
    cri state "${ID[$1/$2]}"
}

pid() {
    cri pid "${ID[$1/$2]}"
}

# The environment of the container's own process, as the spec gave it; "kubectl exec" has another one.
variable() {
    tr '\0' '\n' <"/proc/$(pid "$1" "$2")/environ" | sed -n "s/^$3=//p"
}

# lease_of POD CONTAINER FILTER, chips_of POD CONTAINER: "none" where it has none.
lease_of() {
    lease "${ID[$1/$2]}" "$3"
}

chips_of() {
    chips "${ID[$1/$2]}"
}

nobody_has_chips() {
    equal "free chips $1" 16 "$(remaining)"
    equal "leases $1" "[]" "$(status | jq -c .leases)"
}
