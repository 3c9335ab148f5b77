//! The chips of a host as a CDI document, for engines that give devices out by name: `--device aws.amazon.com/neuron=0`.
//!
//! Pure. A node is named by its path alone: the driver's major is dynamic, and the engine looks at the node when a container starts
//! (CDI's SPEC.md, `deviceNodes`). It sets no environment: two devices of one container would each set the same variable, and to the
//! wrapper `AWS_NEURON_VISIBLE_DEVICES` beside device nodes is a second request.

use serde::Serialize;

use crate::chip::Inventory;

/// The vendor and class of the devices; a device is called `aws.amazon.com/neuron=NAME`.
pub const KIND: &str = "aws.amazon.com/neuron";

/// The name of the device that is every chip.
const ALL: &str = "all";

/// The version that the document needs and no later one: since 0.5.0 names may begin with a digit and nodes have a `hostPath` (SPEC.md,
/// "Version"). Podman 4.3 refuses a document that calls itself 0.6.0 (tests/engines).
const VERSION: &str = "0.5.0";

/// A document.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    cdi_version: &'static str,
    kind: &'static str,
    devices: Vec<Device>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: Edits,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Edits {
    device_nodes: Vec<Node>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_path: Option<String>,
    permissions: &'static str,
}

/// One device for each chip that has a node, and one for all of them; `None` where there is none. `dev` is the host's folder of nodes.
#[must_use]
pub fn document(inventory: &Inventory, dev: &str) -> Option<Document> {
    let chips = inventory.chips.iter().filter(|chip| chip.node.is_some());
    let nodes: Vec<_> = chips.map(|chip| (chip.id.to_string(), node(&chip.id.node_name(), dev))).collect();
    if nodes.is_empty() {
        return None;
    }
    let all = nodes.iter().map(|(_, node)| node.clone()).collect();
    let mut devices: Vec<_> = nodes.into_iter().map(|(name, node)| device(name, vec![node])).collect();
    devices.push(device(ALL.to_owned(), all));
    Some(Document { cdi_version: VERSION, kind: KIND, devices })
}

fn device(name: String, device_nodes: Vec<Node>) -> Device {
    Device { name, container_edits: Edits { device_nodes } }
}

fn node(name: &str, dev: &str) -> Node {
    let (path, on_host) = (format!("/dev/{name}"), format!("{dev}/{name}"));
    let host_path = (path != on_host).then_some(on_host);
    Node { path, host_path, permissions: "rw" }
}
