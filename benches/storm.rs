//! Many claims at once against the same claims one after another.
//!
//! `storm WRAPPER FOLDER N`: FOLDER/bundle-0 to bundle-N each ask for chips. Prints the milliseconds of N claims one after another, and of N at
//! once, each with all N containers living on, and fails where a claim fails or a chip is given twice. As the wrapper's low-level runtime
//! (`storm … create …`) it says that it runs, and waits for the end of its input.

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "create") {
        std::io::stdout().write_all(b"!")?;
        std::io::stdout().flush()?;
        std::io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    let [wrapper, folder, number] = args.as_slice() else { return Err("storm WRAPPER FOLDER N".into()) };
    let storm = Storm { wrapper: wrapper.into(), folder: folder.into(), number: number.parse()? };
    let single = storm.blow(|starts| {
        // Each has said that it runs before the next one starts.
        starts.map(|start| start.and_then(|child| running(child).map_err(Into::into))).collect()
    })?;
    let at_once = storm.blow(|starts| {
        let children: Vec<Child> = starts.collect::<Result<_, _>>()?;
        children.into_iter().map(|child| running(child).map_err(Into::into)).collect()
    })?;
    writeln!(std::io::stdout(), "{single} {at_once}")?;
    Ok(())
}

struct Storm {
    wrapper: PathBuf,
    folder: PathBuf,
    number: usize,
}

type Started = Result<Child, Box<dyn Error>>;

impl Storm {
    /// Starts all containers in one way or another; milliseconds until the last of them runs.
    fn blow(&self, way: impl Fn(&mut dyn Iterator<Item = Started>) -> Result<Vec<Child>, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
        for bundle in self.bundles() {
            fs::copy(self.folder.join("ask.json"), bundle.join("config.json"))?;
        }
        let begun = Instant::now();
        let children = way(&mut self.bundles().map(|bundle| self.start(&bundle)))?;
        let took = begun.elapsed().as_secs_f64() * 1000.0;
        let mut given = HashSet::new();
        for bundle in self.bundles() {
            let spec: serde_json::Value = serde_json::from_slice(&fs::read(bundle.join("config.json"))?)?;
            let env = spec["process"]["env"].as_array().ok_or("no environment")?;
            let chips = env.iter().find_map(|entry| entry.as_str()?.strip_prefix("AWS_NEURON_VISIBLE_DEVICES=")).ok_or("no chips")?;
            for chip in chips.split(',') {
                if !given.insert(chip.to_owned()) {
                    return Err(format!("chip {chip} was given twice").into());
                }
            }
        }
        for mut child in children {
            drop(child.stdin.take());
            child.wait()?;
        }
        Ok(took)
    }

    fn bundles(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.number).map(|bundle| self.folder.join(format!("bundle-{bundle}")))
    }

    fn start(&self, bundle: &Path) -> Started {
        let mut command = Command::new(&self.wrapper);
        command.args(["create", "--bundle"]).arg(bundle).arg(bundle.file_name().unwrap_or_default());
        Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
    }
}

/// Waits for the word that it runs.
fn running(mut child: Child) -> std::io::Result<Child> {
    let mut word = [0];
    child.stdout.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?.read_exact(&mut word)?;
    Ok(child)
}
