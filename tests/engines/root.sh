# shellcheck shell=bash
# A root of its own for a real engine, with sixteen simulated chips: an overlay over ENGINE_ROOT, so that /etc, /run and /var/lib of
# the machine stay as they are, and images that need no registry.
#
# From ./case: WORK (the folder of the whole run), CASE and HOST; from the run scripts: ENGINE_ROOT.

ROOT=$WORK/root
export NEURON_HOST_ROOT=$HOST

prepare_root() {
    # /tmp may be mounted with nodev.
    mount -t tmpfs -o mode=0755,dev none "$CASE"
    "$WORK/bin/neuron-ctk" simulate trn1.32xlarge "$HOST" >/dev/null
    # The first major for local use that no driver has, as the design says; in hex as stat shows it.
    # shellcheck disable=SC2034 # For the cases.
    HEX=$(printf %x "$(awk '/^Block/ { exit } $1 >= 240 && $1 <= 254 { used[$1] = 1 } END { for (m = 240; m in used; m++); print m }' /proc/devices)")

    mkdir "$CASE/upper" "$CASE/work"
    mount -t overlay -o "lowerdir=$ENGINE_ROOT,upperdir=$CASE/upper,workdir=$CASE/work" none "$ROOT"
    # What somebody has set on this machine is not to reach the engines.
    rm -rf "$ROOT"/etc/{docker,containerd,neuron-container-runtime,containers/containers.conf,containers/containers.conf.d}
    mkdir -p "$ROOT"/{proc,sys,dev,run,old-root,etc/containerd,etc/docker,etc/containers,etc/neuron-container-runtime,"$WORK/bin","$CASE"}
    local folder
    for folder in /proc /sys "$WORK/bin" "$CASE"; do
        mount --rbind "$folder" "$ROOT$folder"
    done
    # With the chips' nodes where a real host has them, for what takes all of /dev along.
    mount -t tmpfs -o mode=0755,dev none "$ROOT/dev"
    mkdir -m 1777 "$ROOT/dev/shm"
    cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty "$HOST"/dev/neuron* "$ROOT/dev"
    mount -t tmpfs -o mode=0755 none "$ROOT/run"
    # An overlay's upper folder cannot be an overlay, and the engines' images have one.
    for folder in containerd docker containers; do
        mkdir -p "$ROOT/var/lib/$folder"
        mount -t tmpfs -o mode=0711 none "$ROOT/var/lib/$folder"
    done
    # The root of a machine that never ran has none.
    touch "$ROOT/etc/hosts" "$ROOT/etc/resolv.conf"
    settings
    enter_root
}

# Not by chroot: there runc's pivot_root leaves the machine's root in place, and "exec" enters that one. A process that only sleeps
# keeps the mount namespace, so that engines and clients see the same mounts.
enter_root() {
    unshare --mount --propagation private \
        sh -c 'cd "$1" && pivot_root . old-root && umount -l old-root && touch /run/entered && exec sleep 1000000' - "$ROOT" &
    KEEPER=$!
    within "the engine's root is entered" test -e "$ROOT/run/entered"
}

# in_root COMMAND…: there. The wrapper is to know the host by its config.toml, as on a node; a variable of the engine's would reach
# it too.
in_root() {
    env -u NEURON_HOST_ROOT nsenter --target "$KEEPER" --mount -- "$@"
}

# daemon COMMAND…: there, in the background, with its pid in DAEMON.
daemon() {
    # Not by calling in_root: the pid would be a shell's.
    env -u NEURON_HOST_ROOT nsenter --target "$KEEPER" --mount -- "$@" >>"$CASE/$1.log" 2>&1 &
    # shellcheck disable=SC2034 # For the cases.
    DAEMON=$!
}

# settings [LINE…]: the wrapper's config.toml, with these lines, and the simulated host.
settings() {
    printf '%s\n' "host-root = \"$HOST\"" "$@" >"$ROOT/etc/neuron-container-runtime/config.toml"
}

configure() {
    in_root "$WORK/bin/neuron-ctk" configure "$@"
}

# containerd gives every container a weight, and v2 has none where v1 holds the cpu controller. There a runc that takes it out
# of the spec comes first on the engine's PATH.
spare_weights() {
    case $ENGINE in *-v1) return 0 ;; esac
    ! grep -qw cpu /sys/fs/cgroup/cgroup.controllers || return 0
    install -m 755 /dev/stdin "$ROOT/usr/local/sbin/runc" <<'END'
#!/bin/sh
for argument; do
    [ ! -e "$argument/config.json" ] || sed -i 's/"cpu":{"shares":[0-9]*}/"cpu":{}/' "$argument/config.json"
done
exec /usr/sbin/runc "$@"
END
}

# A root folder for containers, of busybox alone.
busybox_root() {
    mkdir -p "$CASE/rootfs"/{bin,proc,sys,dev,etc,run,tmp}
    cp "$(command -v busybox)" "$CASE/rootfs/bin/busybox"
    chroot "$CASE/rootfs" /bin/busybox --install -s /bin
}

# oci_image NAME FILE: an OCI archive of it. As a sandbox it asks for those of its children that ended, as Kubernetes' own does.
oci_image() {
    local layout=$CASE/image layer config manifest
    mkdir -p "$layout/blobs/sha256"
    layer=$(tar -C "$CASE/rootfs" -c . | blob)
    config=$(jq -n --arg layer "sha256:$layer" '{architecture: "amd64", os: "linux", rootfs: {type: "layers", diff_ids: [$layer]},
        config: {Env: ["PATH=/bin"], Cmd: ["sh", "-c", "sleep 1000000 & wait"]}}' | blob)
    manifest=$(jq -n --argjson config "$(descriptor image.config.v1+json "$config")" \
        --argjson layer "$(descriptor image.layer.v1.tar "$layer")" \
        '{schemaVersion: 2, config: $config, layers: [$layer]}' | blob)
    jq -n --arg image "$1" --argjson manifest "$(descriptor image.manifest.v1+json "$manifest")" \
        '{schemaVersion: 2, manifests: [$manifest + {annotations: {"io.containerd.image.name": $image}}]}' >"$layout/index.json"
    echo '{"imageLayoutVersion": "1.0.0"}' >"$layout/oci-layout"
    tar -C "$layout" -cf "$2" .
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
