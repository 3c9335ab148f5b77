//! `cdi`: the chips as CDI devices, for engines that are asked by `--device aws.amazon.com/neuron=0`.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::cdi::document;
use crate::configure::{Change, Copy};
use crate::host::Host;
use crate::textfile::TextFile;

/// Describe the chips as CDI devices (aws.amazon.com/neuron=0 and on, and =all) for Podman, Docker and containerd
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:\n  neuron-ctk cdi\n  neuron-ctk cdi --output /etc/cdi/aws.amazon.com-neuron.json\n  podman run --device aws.amazon.com/neuron=0 --cap-add IPC_LOCK IMAGE\n\n\
Whoever names devices so picks chips by hand: two containers can name the same one. Where the runtime neuron runs such a container too, its\n\
chips are recorded, so that nobody else is granted them. To undo: remove FILE.")]
pub(super) struct Cdi {
    /// Write it there, whole, instead of showing it
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Cdi {
    /// Shows the document, or writes it.
    pub(super) fn run(&self, host: &Host, out: &mut dyn Write) -> Result<()> {
        let inventory = host.discover()?;
        let dev = std::path::absolute(&host.dev)?;
        let dev = dev.to_str().with_context(|| format!("the path {} is not UTF-8, and JSON is", dev.display()))?;
        let document = document(&inventory, dev)
            .context("this host has no Neuron chip to describe: load the driver (aws-neuronx-dkms), then once more")?;
        let text = serde_json::to_string_pretty(&document)? + "\n";
        let Some(path) = &self.output else { return Ok(out.write_all(text.as_bytes())?) };
        // Here, for a folder that `configure` makes is marked as one that its --remove takes away.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        folder.map_or(Ok(()), std::fs::create_dir_all).with_context(|| format!("{} cannot be made", path.display()))?;
        let file = TextFile::read(path)?;
        file.write(&Change { after: Some(text), copy: Copy::Stay, replaces: None })?;
        writeln!(out, "{}: written; write it again when chips come or go", path.display())?;
        Ok(())
    }
}
