//! `simulate`: a folder that stands for a host with Neuron chips.
//!
//! Writes the sysfs tree, DMI name, driver version and device nodes of an instance type under a folder of the caller's. As root the
//! nodes are character devices of a major that no driver of this machine has: opening one gives ENXIO where the device cgroup allows it
//! and EPERM where not. Without root regular files stand for them.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::chip::ChipId;
use crate::host::parse_majors;
use crate::topology::{InstanceType, Links, instance_type, instance_types};

/// Make a folder that stands for a host with Neuron chips
#[derive(Debug, Args)]
#[command(
    after_help = "Example: neuron-ctk simulate trn1.32xlarge /tmp/host && neuron-ctk --host-root /tmp/host status\n\nTo undo: remove DIR."
)]
pub(super) struct Simulate {
    /// An EC2 instance type, such as trn1.32xlarge
    #[arg(value_name = "TYPE")]
    kind: String,
    /// The folder; it must be empty or not be there yet
    dir: PathBuf,
    /// So many chips of that kind, connected in a ring
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(ChipId::LIMIT)))]
    chips: Option<u32>,
}

impl Simulate {
    /// Makes the host, and says what to do with it.
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut row = row_of(&self.kind)?;
        if let Some(chips) = self.chips {
            row.chips = chips;
            row.links = Links::Ring;
        }
        make_empty(&self.dir)?;
        let nodes = write_host(&self.dir, &row)?;
        let dir = self.dir.display();
        let chips = crate::words::count(row.chips, "Neuron chip");
        writeln!(out, "{dir} stands for a {} with {chips}: {nodes}\n", row.name)?;
        writeln!(out, "  neuron-ctk --host-root {dir} status\n\nTo undo: rm -r {dir}")?;
        Ok(())
    }
}

fn make_empty(dir: &Path) -> Result<()> {
    match fs::read_dir(dir) {
        Ok(mut entries) => ensure!(entries.next().is_none(), "{} is not empty: name a folder of its own", dir.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(dir).with_context(|| format!("{} cannot be made", dir.display()))?;
        }
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", dir.display())),
    }
    Ok(())
}

/// The instance type of this name.
pub(super) fn row_of(kind: &str) -> Result<InstanceType> {
    let known = || instance_types().into_iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    instance_type(kind).with_context(|| format!("{} is no instance type with Neuron chips: {}", crate::words::quoted(kind), known()))
}

/// Writes the host; says what its nodes are.
pub(super) fn write_host(dir: &Path, row: &InstanceType) -> Result<String> {
    let devices = fs::read_to_string("/proc/devices").unwrap_or_default();
    // 240 to 254 are for local use (Documentation/admin-guide/devices.txt).
    let major = (240..=254).find(|major| !parse_majors(&devices).contains(major)).context("every major from 240 to 254 is in use here")?;
    put(dir, "sys/class/dmi/id/product_name", &format!("{}\n", row.name))?;
    put(dir, "sys/module/neuron/version", "2.24.7.0\n")?;
    put(dir, "sys/module/neuron/refcnt", "0\n")?;
    let class = dir.join("sys/class/neuron_device");
    for folder in [&class, &dir.join("dev"), &dir.join("run"), &dir.join("var/log")] {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    let mut real = true;
    for index in 0..row.chips {
        let id = ChipId::new(index).context("a host has 64 chips at most")?;
        let name = id.node_name();
        let device = format!("sys/devices/virtual/neuron_device/{name}");
        let linked: Vec<_> = row.links.of(id, row.chips).into_iter().map(|id| id.to_string()).collect();
        put(dir, &format!("{device}/dev"), &format!("{major}:{index}\n"))?;
        // As the driver writes it: no newline.
        put(dir, &format!("{device}/core_count"), &row.cores.to_string())?;
        put(dir, &format!("{device}/connected_devices"), &format!("{}\n", linked.join(", ")))?;
        put(dir, &format!("{device}/reset"), "1\n")?;
        put(dir, &format!("{device}/info/serial_number"), &format!("{:016x}\n", 0x5eed_0000_0000_0000_u64 + u64::from(index)))?;
        let (generation, family) = architecture(row);
        put(dir, &format!("{device}/info/architecture/arch_type"), &format!("{generation}\n"))?;
        put(dir, &format!("{device}/info/architecture/instance_type"), &format!("{family}\n"))?;
        put(dir, &format!("{device}/info/architecture/device_name"), &format!("{}\n", row.architecture))?;
        for core in 0..row.cores {
            let core = dir.join(format!("{device}/neuron_core{core}"));
            fs::create_dir_all(&core).with_context(|| format!("{} cannot be made", core.display()))?;
        }
        let link = class.join(&name);
        symlink(format!("../../devices/virtual/neuron_device/{name}"), &link)
            .with_context(|| format!("{} cannot be made", link.display()))?;
        real &= node(&dir.join("dev").join(&name), major, index)?;
    }
    Ok(if real {
        format!("device nodes {major}:0 to {major}:{}, no driver behind them", row.chips - 1)
    } else {
        "regular files stand for its device nodes, for you are not root".to_owned()
    })
}

/// The driver's words for a chip: its generation and the family of its instances.
fn architecture(row: &InstanceType) -> (&'static str, &'static str) {
    match row.architecture.as_str() {
        "Inferentia" => ("NDv1", "Inf1"),
        "Trainium1" => ("NDv2", "Trn1"),
        "Inferentia2" => ("NDv3", "Inf2"),
        _ => ("NDv3", "Trn2"),
    }
}

fn put(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))
}

/// Makes a device node, or a file in its place where that is not allowed; says which.
fn node(path: &Path, major: u32, minor: u32) -> Result<bool> {
    let made = match mknod(path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(major.into(), minor.into())) {
        Ok(()) => true,
        Err(nix::Error::EPERM | nix::Error::EACCES) => {
            fs::write(path, "").with_context(|| format!("{} cannot be written", path.display()))?;
            false
        }
        Err(error) => bail!("{} cannot be made: {error}", path.display()),
    };
    // Whatever the umask: the mode of AWS's udev rule.
    fs::set_permissions(path, PermissionsExt::from_mode(0o666)).with_context(|| format!("{} cannot be opened to all", path.display()))?;
    Ok(made)
}
