//! Many claims at once against the same claims one after another.
//!
//! `storm WRAPPER FOLDER N`: FOLDER/bundle-0 to bundle-N each ask for chips or cores. Prints the milliseconds of N claims one after another; of
//! N at once, each with all N containers living on; and of those at once what one takes in the middle, and the longest. Fails where a claim
//! fails or a chip or core is given twice. As the wrapper's low-level runtime (`storm … create …`) it says since when it runs, and waits for
//! the end of its input.

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "create") {
        std::io::stdout().write_all(&now()?.as_nanos().to_ne_bytes())?;
        std::io::stdout().flush()?;
        std::io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    let [wrapper, folder, number] = args.as_slice() else { return Err("storm WRAPPER FOLDER N".into()) };
    let storm = Storm { wrapper: wrapper.into(), folder: folder.into(), number: number.parse()? };
    // Each has said that it runs before the next one starts.
    let (single, _) = storm.blow(|starts| starts.map(|start| start.and_then(running)).collect())?;
    let (at_once, mut each) = storm.blow(|starts| {
        let children: Vec<Started> = starts.collect::<Result<_, _>>()?;
        children.into_iter().map(running).collect()
    })?;
    each.sort_by(f64::total_cmp);
    let (median, longest) = (each.get(each.len() / 2).ok_or("no claim")?, each.last().ok_or("no claim")?);
    writeln!(std::io::stdout(), "{single} {at_once} {median} {longest}")?;
    Ok(())
}

/// A clock that every process reads alike.
fn now() -> Result<Duration, Box<dyn Error>> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

struct Storm {
    wrapper: PathBuf,
    folder: PathBuf,
    number: usize,
}

/// A container's process, and when its engine started it.
type Started = (Child, Duration);

/// A container's process, and after how many milliseconds it ran.
type Running = (Child, f64);

type Outcome<T> = Result<T, Box<dyn Error>>;

impl Storm {
    /// Starts all containers in one way or another; milliseconds until the last of them runs, and of each.
    fn blow(&self, way: impl Fn(&mut dyn Iterator<Item = Outcome<Started>>) -> Outcome<Vec<Running>>) -> Outcome<(f64, Vec<f64>)> {
        for bundle in self.bundles() {
            fs::copy(self.folder.join("ask.json"), bundle.join("config.json"))?;
        }
        let begun = now()?;
        let children = way(&mut self.bundles().map(|bundle| self.start(&bundle)))?;
        let took = milliseconds(now()?.saturating_sub(begun));
        let mut given = HashSet::new();
        for bundle in self.bundles() {
            let spec: serde_json::Value = serde_json::from_slice(&fs::read(bundle.join("config.json"))?)?;
            let env = spec["process"]["env"].as_array().ok_or("no environment")?;
            let value = |name: &str| env.iter().find_map(|entry| entry.as_str()?.strip_prefix(name));
            let (chips, cores) = (value("AWS_NEURON_VISIBLE_DEVICES=").ok_or("no chips")?, value("NEURON_RT_VISIBLE_CORES="));
            for chip in chips.split(',') {
                if !given.insert((chip.to_owned(), cores.map(str::to_owned))) {
                    return Err(format!("chip {chip} was given twice, cores {cores:?}").into());
                }
            }
        }
        let mut each = Vec::new();
        for (mut child, took) in children {
            drop(child.stdin.take());
            child.wait()?;
            each.push(took);
        }
        Ok((took, each))
    }

    fn bundles(&self) -> impl Iterator<Item = PathBuf> {
        (0..self.number).map(|bundle| self.folder.join(format!("bundle-{bundle}")))
    }

    fn start(&self, bundle: &Path) -> Outcome<Started> {
        let mut command = Command::new(&self.wrapper);
        command.args(["create", "--bundle"]).arg(bundle).arg(bundle.file_name().unwrap_or_default());
        let begun = now()?;
        Ok((command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?, begun))
    }
}

/// Waits for the word that it runs.
fn running((mut child, begun): Started) -> Outcome<Running> {
    let mut since = [0; size_of::<u128>()];
    child.stdout.as_mut().ok_or("no output")?.read_exact(&mut since)?;
    let since = Duration::from_nanos(u64::try_from(u128::from_ne_bytes(since))?);
    Ok((child, milliseconds(since.saturating_sub(begun))))
}
