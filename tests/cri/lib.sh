# shellcheck shell=bash
# What these cases are made of, beside the checks of ../engines/lib.sh: a containerd in a root of its own, pods and containers.
#
# From ./case: WORK (the folder of the whole run), GROUP (the name of all cgroups), CASE and HOST; from ./run: ENGINE_ROOT.

ROOT=$WORK/root
SOCKET=$ROOT/run/containerd/containerd.sock
IMAGE=localhost/busybox:1
export NEURON_HOST_ROOT=$HOST

# Sixteen simulated chips; a root for the engine, writable and thrown away; the files that a user writes in it.
prepare_engine() {
    # /tmp may be mounted with nodev.
    mount -t tmpfs -o mode=0755,dev none "$CASE"
    "$WORK/bin/neuron-ctk" simulate trn1.32xlarge "$HOST" >/dev/null
    # The first major for local use that no driver has, as the design says; in hex as stat shows it.
    # shellcheck disable=SC2034 # For the cases.
    HEX=$(printf %x "$(awk '/^Block/ { exit } $1 >= 240 && $1 <= 254 { used[$1] = 1 } END { for (m = 240; m in used; m++); print m }' /proc/devices)")

    mkdir "$CASE/upper" "$CASE/work"
    mount -t overlay -o "lowerdir=$ENGINE_ROOT,upperdir=$CASE/upper,workdir=$CASE/work" none "$ROOT"
    mkdir -p "$ROOT"/{proc,sys,dev,run,old-root,var/lib/containerd,etc/containerd,etc/neuron-container-runtime,"$WORK/bin","$CASE"}
    local folder
    for folder in /proc /sys "$WORK/bin" "$CASE"; do
        mount --rbind "$folder" "$ROOT$folder"
    done
    # With the chips' nodes where a real host has them, for what takes all of /dev along.
    mount -t tmpfs -o mode=0755,dev none "$ROOT/dev"
    cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty "$HOST"/dev/neuron* "$ROOT/dev"
    mount -t tmpfs -o mode=0755 none "$ROOT/run"
    # An overlay's upper folder cannot be an overlay, and containerd's snapshots have one.
    mount -t tmpfs -o mode=0711 none "$ROOT/var/lib/containerd"

    # The root of a machine that never ran has none.
    touch "$ROOT/etc/hosts" "$ROOT/etc/resolv.conf"
    settings
    configure_engine
    case $ENGINE in *-v2) grep -qw cpu /sys/fs/cgroup/cgroup.controllers || spare_weights ;; esac
    start_engine
}

# containerd gives every container a weight, and v2 has none where v1 holds the cpu controller. There a runc that takes it out
# of the spec comes first on the engine's PATH.
spare_weights() {
    install -m 755 /dev/stdin "$ROOT/usr/local/sbin/runc" <<'END'
#!/bin/sh
for argument; do
    [ ! -e "$argument/config.json" ] || sed -i 's/"cpu":{"shares":[0-9]*}/"cpu":{}/' "$argument/config.json"
done
exec /usr/sbin/runc "$@"
END
}

# settings [LINE…]: the wrapper's config.toml, with these lines, and the simulated host.
settings() {
    printf '%s\n' "host-root = \"$HOST\"" "$@" >"$ROOT/etc/neuron-container-runtime/config.toml"
}

# The config.toml that is there before, as the package leaves it; the runtime entered as docs/kubernetes.md says; then what this
# machine needs: an image that need not be pulled, and no oom_score_adj below the engine's own, for which root must have
# CAP_SYS_RESOURCE.
configure_engine() {
    local file=$ROOT/etc/containerd/config.toml
    case $(engine_version) in
    1.*)
        chroot "$ROOT" "$WORK/bin/neuron-ctk" configure containerd
        into_table '[plugins."io.containerd.grpc.v1.cri"]' "$file" "sandbox_image = \"$IMAGE\"" 'restrict_oom_score_adj = true'
        ;;
    *)
        printf '%s\n' 'version = 3' 'imports = ["/etc/containerd/conf.d/*.toml"]' >"$file"
        chroot "$ROOT" "$WORK/bin/neuron-ctk" configure containerd
        into_table '[plugins."io.containerd.cri.v1.images".pinned_images]' "$file" "sandbox = \"$IMAGE\""
        into_table '[plugins."io.containerd.cri.v1.runtime"]' "$file" 'restrict_oom_score_adj = true'
        ;;
    esac
}

engine_version() {
    local version
    version=$(chroot "$ROOT" containerd --version | cut -d ' ' -f 3)
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

# Not by chroot: there runc's pivot_root leaves the machine's root in place, and "exec" enters that one. The wrapper is to know the
# host by its config.toml, as on a node; a variable of containerd's would reach it too.
start_engine() {
    env -u NEURON_HOST_ROOT unshare --mount --propagation private \
        sh -c 'cd "$1" && pivot_root . old-root && umount -l old-root && exec containerd' - "$ROOT" >>"$CASE/containerd.log" 2>&1 &
    # shellcheck disable=SC2034 # For the cases.
    CONTAINERD=$!
    within "containerd answers" answers
}

answers() {
    cri version >/dev/null 2>&1
}

cri() {
    "$WORK/bin/cri-client" "$SOCKET" "$@"
}

# An OCI archive of busybox, which is what all containers run, the sandboxes too.
prepare_image() {
    local layout=$CASE/image layer config manifest
    mkdir -p "$CASE/rootfs"/{bin,proc,sys,dev,etc,run,tmp} "$layout/blobs/sha256"
    cp "$(command -v busybox)" "$CASE/rootfs/bin/busybox"
    chroot "$CASE/rootfs" /bin/busybox --install -s /bin
    layer=$(tar -C "$CASE/rootfs" -c . | blob)
    # As a sandbox it asks for those of its children that ended, as Kubernetes' own does.
    config=$(jq -n --arg layer "sha256:$layer" '{architecture: "amd64", os: "linux", rootfs: {type: "layers", diff_ids: [$layer]},
        config: {Env: ["PATH=/bin"], Cmd: ["sh", "-c", "sleep 1000000 & wait"]}}' | blob)
    manifest=$(jq -n --argjson config "$(descriptor image.config.v1+json "$config")" \
        --argjson layer "$(descriptor image.layer.v1.tar "$layer")" \
        '{schemaVersion: 2, config: $config, layers: [$layer]}' | blob)
    jq -n --arg image "$IMAGE" --argjson manifest "$(descriptor image.manifest.v1+json "$manifest")" \
        '{schemaVersion: 2, manifests: [$manifest + {annotations: {"io.containerd.image.name": $image}}]}' >"$layout/index.json"
    echo '{"imageLayoutVersion": "1.0.0"}' >"$layout/oci-layout"
    tar -C "$layout" -cf "$CASE/image.tar" .
    chroot "$ROOT" ctr --namespace k8s.io images import "$CASE/image.tar"
    within "containerd's CRI knows the image" cri has-image "$IMAGE"
}

# Stores stdin under its digest, which it prints.
blob() {
    local digest
    digest=$(tee "$CASE/image/blob" | sha256sum | cut -d ' ' -f 1)
    mv "$CASE/image/blob" "$CASE/image/blobs/sha256/$digest"
    echo "$digest"
}

descriptor() {
    jq -n --arg type "application/vnd.oci.$1" --arg digest "sha256:$2" --argjson size "$(stat -c %s "$CASE/image/blobs/sha256/$2")" \
        '{mediaType: $type, digest: $digest, size: $size}'
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
