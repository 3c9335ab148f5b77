//! The driver, the chips and their nodes.

use std::path::Path;

use super::{Finding, Patient};
use crate::chip::{Chip, Health, Inventory};
use crate::topology;
use crate::users::users;
use crate::words::count;

/// From this version on a container may see its chips as `/dev/neuron0` and on (field notes, AWS's Kubernetes plugin).
const RENUMBERS: [u32; 3] = [2, 12, 14];

pub(super) fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let mut findings = vec![driver(patient)];
    match patient.inventory {
        Ok(inventory) => {
            findings.push(number(inventory));
            if !inventory.chips.is_empty() {
                findings.push(ready(inventory));
                findings.push(nodes(inventory));
                findings.push(unclaimed(patient, inventory));
            }
        }
        Err(error) => findings.push(Finding::fault("chips", format!("{error:#}"), "nothing is granted until this can be read")),
    }
    findings
}

fn driver(patient: &Patient<'_>) -> Finding {
    let folder = patient.host.sys.join("module/neuron");
    let version = patient.inventory.as_ref().ok().and_then(|inventory| inventory.driver_version.clone());
    match version {
        Some(version) if older(&version) => Finding::note(
            "driver",
            format!("neuron {version}: chips keep their host's names in containers"),
            "from 2.12.14 on a container sees them as /dev/neuron0 and on: upgrade aws-neuronx-dkms",
        ),
        Some(version) => Finding::good("driver", format!("neuron {version}")),
        None if folder.exists() => Finding::good("driver", "neuron, of an unknown version"),
        None => {
            Finding::fault("driver", "neuron is not loaded", "install aws-neuronx-dkms, then: modprobe neuron; see dmesg if that fails")
        }
    }
}

fn older(version: &str) -> bool {
    let parts: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    parts.len() >= RENUMBERS.len() && parts[..RENUMBERS.len()] < RENUMBERS[..]
}

fn number(inventory: &Inventory) -> Finding {
    let found = u32::try_from(inventory.chips.len()).unwrap_or(u32::MAX);
    let known = inventory.instance_type.as_deref().and_then(topology::instance_type);
    match (found, known) {
        (0, _) => Finding::fault(
            "chips",
            "none",
            "is this an Inferentia or Trainium instance, and is the driver loaded? see lspci -d 1d0f: and dmesg",
        ),
        (found, Some(row)) if row.chips != found => Finding::fault(
            "chips",
            format!("{found}, where a {} has {}", row.name, row.chips),
            "see dmesg for the chip that failed; a stop and start of the instance moves it to other hardware",
        ),
        (found, Some(row)) => Finding::good("chips", format!("{found}, as a {} has", row.name)),
        (found, None) => Finding::note(
            "chips",
            format!("{found}, on an instance type that is not known ({})", inventory.instance_type.as_deref().unwrap_or("no name")),
            "links and cores are then the driver's word alone",
        ),
    }
}

fn ready(inventory: &Inventory) -> Finding {
    let faults: Vec<_> = inventory.chips.iter().filter_map(|chip| Some((chip, fault(chip)?))).collect();
    match &*faults {
        [] => Finding::good("ready", "all chips can be opened"),
        [(first, why), others @ ..] => Finding::fault(
            "ready",
            format!(
                "chip {} is {why}{}",
                first.id,
                if others.is_empty() { String::new() } else { format!(", and {} more are not ready", others.len()) }
            ),
            match &first.health {
                Health::Unhealthy(_) => format!(
                    "it is not granted; neuron-ctk reset {} may cure it, else load the driver anew, or stop and start the instance",
                    first.id
                ),
                _ => "it is not granted; a chip that stays so: load the driver anew, or stop and start the instance".to_owned(),
            },
        ),
    }
}

fn fault(chip: &Chip) -> Option<&str> {
    match &chip.health {
        Health::Ready => None,
        Health::Unhealthy(why) | Health::Missing(why) | Health::Unknown(why) | Health::Used(why) => Some(why),
    }
}

fn nodes(inventory: &Inventory) -> Finding {
    let closed: Vec<_> = inventory.chips.iter().filter(|chip| chip.node.is_some_and(|node| node.mode & 0o006 != 0o006)).collect();
    let Some(first) = closed.first() else { return Finding::good("nodes", "everybody may open them, as AWS's udev rule has it") };
    let mode = first.node.map_or(0, |node| node.mode);
    Finding::note(
        "nodes",
        format!(
            "{} not open to everybody ({} has mode {mode:04o})",
            count(u32::try_from(closed.len()).unwrap_or(0), "node"),
            Path::new("/dev").join(first.id.node_name()).display()
        ),
        "containers in a user namespace cannot have them; AWS's udev rule gives 0666",
    )
}

fn unclaimed(patient: &Patient<'_>, inventory: &Inventory) -> Finding {
    match users(patient.host, inventory, &patient.settings.observers) {
        Err(error) => Finding::note("use outside", format!("cannot be seen: {error:#}"), "run it as root"),
        Ok(found) => match found.blind {
            Some(why) => Finding::note("use outside", why, "run it as root"),
            None if found.all.is_empty() => Finding::good("use outside", "no process has a chip open"),
            None => Finding::good("use outside", format!("chips are open in {}; neuron-ctk status says which", words(found.all.len()))),
        },
    }
}

fn words(processes: usize) -> String {
    if processes == 1 { "one process".to_owned() } else { format!("{processes} processes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_before_2_12_14_are_older() {
        for (version, is) in
            [("2.12.13.0", true), ("2.12.14.0", false), ("2.9.4", true), ("2.24.7.0", false), ("3.0.0", false), ("x", false), ("2", false)]
        {
            assert_eq!(older(version), is, "{version}");
        }
    }
}
