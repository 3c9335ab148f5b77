//! The demo's stage: a folder with a simulated host, the executable under its names, settings and bundles.
//!
//! What it starts it ends when it is dropped, and the folder with it.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::{Value, json};

use crate::claim::look;
use crate::host::Host;
use crate::process::Processes;
use crate::programs;
use crate::settings::Settings;
use crate::topology::InstanceType;
use crate::words::count;

/// What a container of the demo asks for.
pub(super) enum Asks {
    /// So many chips, by annotation.
    Chips(u32),
    /// One chip's node, by hand.
    Device(u32),
    /// Nothing.
    Nothing,
}

/// The folder and what runs in it.
pub(super) struct Stage {
    folder: PathBuf,
    host: Host,
    settings: Settings,
    /// `runc`, or why it is not used.
    runc: Result<PathBuf, String>,
    kind: String,
    chips: u32,
    containers: Vec<String>,
}

impl Stage {
    /// Sets everything up for a host of this type.
    pub(super) fn new(row: &InstanceType) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("neuron-demo-{}", std::process::id()));
        DirBuilder::new().mode(0o755).create(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        let host_root = folder.join("host");
        let settings = Settings { host_root: Some(host_root.clone()), ..Settings::default() };
        let host = Host::new(&settings);
        let runc = real_runtime(&settings);
        // From here on the folder is removed, whatever fails.
        let mut stage = Self { folder, host, settings, runc, kind: row.name.clone(), chips: row.chips, containers: Vec::new() };
        crate::cli::simulate::write_host(&host_root, row)?;
        stage.install()?;
        if stage.runc.is_ok()
            && let Err(why) = stage.start("probe", &Asks::Nothing)?
        {
            stage.runc = Err(format!("runc is here, but cannot start a container ({why})"));
            stage.write_settings()?;
        }
        Ok(stage)
    }

    /// The simulated host.
    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Its settings.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Host and runtime in a sentence.
    pub(super) fn describe(&self) -> String {
        let runtime = match &self.runc {
            Ok(path) => format!("The low-level runtime is the real {}", path.display()),
            Err(why) => {
                format!("A stand-in takes the place of runc, for {why}: it makes nodes and runs hooks as runc does, but isolates nothing")
            }
        };
        format!("{} with {}. {runtime}", self.kind, count(self.chips, "Neuron chip"))
    }

    /// Starts a container by the wrapper. The inner result is what it saw inside, or why it did not start.
    pub(super) fn start(&mut self, name: &str, asks: &Asks) -> Result<Result<String, String>> {
        let bundle = self.folder.join(name);
        fs::create_dir(&bundle).with_context(|| format!("{} cannot be made", bundle.display()))?;
        fs::write(bundle.join("config.json"), self.spec(name, asks)?.to_string())?;
        let (seen, said) = (bundle.join("out"), bundle.join("err"));
        let status = self
            .command("neuron-container-runtime")
            .arg("--root")
            .arg(self.folder.join("state"))
            .args(["run", "--detach", "--bundle"])
            .arg(&bundle)
            .arg("--pid-file")
            .arg(bundle.join("pid"))
            .arg(name)
            .stdin(Stdio::null())
            .stdout(File::create(&seen)?)
            .stderr(File::create(&said)?)
            .status()
            .context("the wrapper cannot be started; is there a TMPDIR that programs may run from?")?;
        if !status.success() {
            let said = fs::read_to_string(&said).unwrap_or_default();
            return Ok(Err(said.lines().last().unwrap_or("it said nothing").trim_start_matches("error: ").to_owned()));
        }
        self.containers.push(name.to_owned());
        // Its first line comes when it runs, which is after the wrapper has ended.
        let text = || fs::read_to_string(&seen).ok().filter(|text| text.ends_with('\n'));
        wait_for(|| text().is_some()).with_context(|| format!("{name} does not run"))?;
        Ok(Ok(text().unwrap_or_default().trim_end().to_owned()))
    }

    /// Kills a container's process, and waits until its chips are free.
    pub(super) fn kill(&self, name: &str) -> Result<()> {
        let pid = self.pid(name).with_context(|| format!("{name} has no process"))?;
        kill(pid, Signal::SIGKILL).with_context(|| format!("{name} cannot be killed"))?;
        let processes = Processes::new(&self.host.proc)?;
        wait_for(|| look(&self.host, &processes).is_ok_and(|ledger| ledger.leases().iter().all(|lease| lease.container != name)))
            .with_context(|| format!("{name} was killed, and its chips are not free"))
    }

    fn pid(&self, name: &str) -> Option<Pid> {
        let pid = fs::read_to_string(self.folder.join(name).join("pid")).ok()?;
        Some(Pid::from_raw(pid.trim().parse().ok().filter(|pid| *pid > 1)?))
    }

    /// The executable under its names, a root for containers, settings.
    fn install(&self) -> Result<()> {
        let (bin, rootfs) = (self.folder.join("bin"), self.folder.join("rootfs"));
        fs::create_dir(&bin)?;
        fs::create_dir(&rootfs)?;
        let program = bin.join("neuron-ctk");
        // A copy: only a file that nobody else can write is run as hook, and a build folder may be the group's.
        fs::copy("/proc/self/exe", &program).context("this executable cannot be copied")?;
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755))?;
        for name in ["neuron-container-runtime", "neuron-container-hook"] {
            symlink("neuron-ctk", bin.join(name))?;
        }
        fs::hard_link(&program, rootfs.join("neuron-ctk"))?;
        // The wrapper takes no executable of its own inode for a runtime, so the stand-in is called by a script.
        let script = format!("#!/bin/sh\nexec {} demo-runtime \"$@\"\n", quoted(&program));
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(bin.join("stand-in"))?;
        std::io::Write::write_all(&mut file, script.as_bytes())?;
        file.set_permissions(PermissionsExt::from_mode(0o755))?;
        self.write_settings()
    }

    fn write_settings(&self) -> Result<()> {
        let runtime = self.runc.clone().unwrap_or_else(|_| self.folder.join("bin/stand-in"));
        let text = format!("runtimes = [{}]\nhost-root = {}\n", Value::from(runtime.to_str()), Value::from(self.host.root.to_str()));
        let path = self.folder.join("config.toml");
        fs::write(&path, text)?;
        Ok(fs::set_permissions(&path, PermissionsExt::from_mode(0o644))?)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.folder.join("bin").join(name));
        command.env("NEURON_SETTINGS", self.folder.join("config.toml")).env_remove("NEURON_HOST_ROOT").env_remove("RUST_BACKTRACE");
        command
    }

    fn spec(&self, name: &str, asks: &Asks) -> Result<Value> {
        // runc gives each container a /dev of its own over the same root; the stand-in mounts nothing.
        let rootfs = if self.runc.is_ok() { self.folder.join("rootfs") } else { PathBuf::from("rootfs") };
        let mut spec = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": ["/neuron-ctk", "inside"],
                "env": ["PATH=/"],
                "cwd": "/",
                "noNewPrivileges": true,
            },
            "root": {"path": rootfs},
            "hostname": name,
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
            ],
            "linux": {
                "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}, {"type": "network"}],
                "resources": {"devices": [{"allow": false, "access": "rwm"}]},
                "cgroupsPath": format!("/neuron-demo-{}-{name}", std::process::id()),
            },
        });
        match asks {
            Asks::Nothing => {}
            Asks::Chips(number) => spec["annotations"] = json!({"aws.amazon.com/neuron": number.to_string()}),
            Asks::Device(chip) => {
                let inventory = self.host.discover()?;
                let number = inventory.chips.iter().find(|found| found.id.index() == *chip).context("the chip is gone")?.number;
                let (major, minor) = (number.major, number.minor);
                let path = format!("/dev/neuron{chip}");
                spec["linux"]["devices"] =
                    json!([{"path": path, "type": "c", "major": major, "minor": minor, "fileMode": 0o666, "uid": 0, "gid": 0}]);
                let rule = json!({"allow": true, "type": "c", "major": major, "minor": minor, "access": "rwm"});
                spec["linux"]["resources"]["devices"].as_array_mut().context("rules are a list")?.push(rule);
            }
        }
        Ok(spec)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Nothing here may fail: what is gone already is as good.
        for name in &self.containers {
            if let Some(pid) = self.pid(name) {
                let _ = kill(pid, Signal::SIGKILL);
            }
            if let Ok(runc) = &self.runc {
                let state = self.folder.join("state");
                let _ = Command::new(runc).arg("--root").arg(state).args(["delete", "--force", name]).stderr(Stdio::null()).status();
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// `runc`, where it can be used; else why not.
fn real_runtime(settings: &Settings) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH");
    let only_runc = Settings { runtimes: vec!["runc".to_owned()], ..settings.clone() };
    let found = programs::low_level_runtime(&only_runc, path.as_deref()).map_err(|_| "runc is not installed".to_owned())?;
    if geteuid().is_root() { Ok(found) } else { Err("you are not root".to_owned()) }
}

fn wait_for(mut done: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        ensure!(Instant::now() < deadline, "nothing happened for ten seconds");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// A path as a word of sh.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

/// What the demo's containers run: says what it sees, then waits for its end.
///
/// # Errors
/// Its `/dev` cannot be read.
pub(in crate::cli) fn inside(dev: &Path, out: &mut dyn std::io::Write) -> Result<()> {
    // The stand-in says by the end of stdin that the hooks agree; under a runtime there is nothing to wait for.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    let mut nodes: Vec<_> = fs::read_dir(dev)?
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let id = crate::host::parse_node_name(&name)?;
            let number = crate::host::number_of(entry.metadata().ok()?.rdev());
            Some((id, if number.major == 0 { format!("/dev/{name}") } else { format!("/dev/{name} is {number}") }))
        })
        .collect();
    nodes.sort();
    let env = ["AWS_NEURON_VISIBLE_DEVICES", "NEURON_RT_NUM_CORES"]
        .into_iter()
        .filter_map(|name| Some(format!("{name}={}", std::env::var(name).ok()?)));
    let seen: Vec<String> = shortened(nodes.into_iter().map(|(_, node)| node).collect()).into_iter().chain(env).collect();
    writeln!(out, "{}", if seen.is_empty() { "no chips".to_owned() } else { seen.join(", ") })?;
    out.flush()?;
    loop {
        std::thread::park();
    }
}

/// A long list by its ends.
fn shortened(nodes: Vec<String>) -> Vec<String> {
    match nodes.as_slice() {
        [first, second, .., last] if nodes.len() > 4 => vec![first.clone(), second.clone(), "…".to_owned(), last.clone()],
        _ => nodes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_quote_is_one_word() {
        assert_eq!(quoted(Path::new("/a'b c")), "'/a'\\''b c'");
    }
}
