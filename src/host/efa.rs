//! The nodes of Elastic Fabric Adapters.

use std::io::ErrorKind;

use anyhow::Result;

use super::{Host, host_node, is_node, number_of, unreadable};
use crate::grant::{Device, EFA_FOLDER, EFA_NAME, Node};
use crate::kernel::{self, Folder};

impl Host {
    /// The nodes of the Elastic Fabric Adapters, under the names that they have on the host; none where there are none.
    ///
    /// # Errors
    /// What is there cannot be read.
    pub fn efa_nodes(&self) -> Result<Vec<Node>> {
        let folder = match Folder::open(&self.dev.join(EFA_FOLDER)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&self.dev.join(EFA_FOLDER), error)),
        };
        let entries = kernel::entries(&folder).map_err(|error| unreadable(&folder.path, error))?;
        let mut nodes = Vec::new();
        for (name, _) in entries {
            let Some(index) = name.to_str().ok().and_then(|name| name.strip_prefix(EFA_NAME)?.parse().ok()) else { continue };
            let (device, name) = (Device::Efa(index), format!("{EFA_NAME}{index}"));
            let stat = folder.stat(&name).map_err(|error| unreadable(&folder.path.join(&name), error))?;
            if is_node(&stat) {
                nodes.push(Node { device, path: format!("/dev/{}", device.node_name()), number: number_of(stat.st_rdev), host: host_node(&stat) });
            }
        }
        nodes.sort_unstable_by_key(|node| node.number.minor);
        Ok(nodes)
    }
}
