# What the tests do to the config.json that `runc spec` and `crun spec` write.

def ask($value): .annotations["aws.amazon.com/neuron"] = $value;

def user($id): .process.user = { uid: $id, gid: $id };

def user_namespace:
  .linux.namespaces += [{ type: "user" }]
  | .linux.uidMappings = [{ containerID: 0, hostID: 100000, size: 65536 }]
  | .linux.gidMappings = .linux.uidMappings;

def capability($name):
  .process.capabilities |= with_entries(if .key == "ambient" or .key == "inheritable" then . else .value += [$name] end);

def without_namespace($type): .linux.namespaces |= map(select(.type != $type));

def bind($source; $at): .mounts += [{ destination: $at, type: "bind", source: $source, options: ["bind", "rw"] }];

# A folder that may be written to and hold nodes, for anybody.
def scratch: .mounts += [{ destination: "/scratch", type: "tmpfs", source: "tmpfs", options: ["mode=1777"] }];

# As `--device` does it: the node, and the rule that lets it be opened.
def device($path; $major; $minor):
  .linux.devices += [{ path: $path, type: "c", major: $major, minor: $minor, fileMode: 438, uid: 0, gid: 0 }]
  | .linux.resources.devices += [{ allow: true, type: "c", major: $major, minor: $minor, access: "rwm" }];

def base($script; $rootfs; $cgroup):
  .process.terminal = false
  | .process.args = ["sh", "-c", $script]
  | .root.path = $rootfs
  | .linux.cgroupsPath = $cgroup;
