//! The settings: `config.toml`, and what stands above it (flag, environment, file, default).
//!
//! Reads one file, which must be root's or the caller's and not writable by others; writes nothing.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Deserializer, de};

use crate::chip::ChipSet;
use crate::grant::{Efa, Naming};
use crate::kernel;
use crate::process;
use crate::select::Policy;

/// Where the settings are, unless a flag or `NEURON_SETTINGS` says otherwise.
pub const DEFAULT_FILE: &str = "/etc/neuron-container-runtime/config.toml";
/// The environment's word on the file of settings.
pub const FILE_VARIABLE: &str = "NEURON_SETTINGS";
/// The environment's word on the root of the host.
pub const ROOT_VARIABLE: &str = "NEURON_HOST_ROOT";

/// What an administrator can set. Each key has a default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Low-level runtimes, the first one found counts: absolute, or looked up on PATH.
    pub runtimes: Vec<String>,
    /// May `AWS_NEURON_VISIBLE_DEVICES` ask for chips? (An image can set it.)
    pub accept_env: bool,
    /// Chips that are never granted.
    pub reserved_chips: ChipSet,
    /// The most chips that one container may have.
    pub max_chips: Option<u32>,
    /// How nodes are called in the container.
    pub device_naming: Naming,
    /// What `--device /dev/neuron3` means.
    pub manual_devices: Manual,
    /// Must NeuronLink connect the chips of a grant?
    pub require_links: bool,
    /// Refuse counts that AWS's Kubernetes scheduler does not serve on a torus.
    pub strict_counts: bool,
    /// Give containers with chips `CAP_IPC_LOCK`?
    pub ipc_lock: bool,
    /// When Elastic Fabric Adapters come along with chips.
    pub efa: Efa,
    /// Are chips that a process uses outside this tool not free?
    pub avoid_unclaimed: bool,
    /// Executables that only watch chips: their use does not count.
    pub observers: Vec<String>,
    /// The longest that a container may wait for chips.
    #[serde(deserialize_with = "duration")]
    pub wait_limit: Duration,
    /// How long a claim waits for the ledger's lock.
    #[serde(deserialize_with = "duration")]
    pub lock_timeout: Duration,
    /// The hook's executable; default: beside the wrapper's own link.
    pub hook_path: Option<PathBuf>,
    /// Only log what would be done, and pass every container through unchanged?
    pub dry_run: bool,
    /// The log; default `/var/log/neuron-container-runtime.log`.
    pub log_file: Option<PathBuf>,
    /// What is logged.
    #[serde(deserialize_with = "level")]
    pub log_level: log::LevelFilter,
    /// Where lock and ledger are; default `/run/neuron-container-runtime`.
    pub state_dir: Option<PathBuf>,
    /// A folder that stands for `/`: a simulated host.
    pub host_root: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        let policy = Policy::default();
        Self {
            runtimes: vec!["runc".to_owned(), "crun".to_owned()],
            accept_env: true,
            reserved_chips: policy.reserved,
            max_chips: policy.max_chips,
            device_naming: Naming::Auto,
            manual_devices: Manual::Adopt,
            require_links: policy.require_links,
            strict_counts: policy.strict_counts,
            ipc_lock: true,
            efa: Efa::Off,
            avoid_unclaimed: true,
            observers: ["neuron-monitor", "neuron-ls", "neuron-top"].map(str::to_owned).to_vec(),
            wait_limit: Duration::from_secs(60),
            lock_timeout: Duration::from_secs(10),
            hook_path: None,
            dry_run: false,
            log_file: None,
            log_level: log::LevelFilter::Info,
            state_dir: None,
            host_root: None,
        }
    }
}

/// What device nodes that a spec already has mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Manual {
    /// Recorded, so that nobody else is given those chips; the container never fails for it.
    Adopt,
    /// A request for exactly these.
    Exclusive,
    /// Nothing.
    Ignore,
}

impl Settings {
    /// The part that `select` goes by.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy {
            reserved: self.reserved_chips,
            max_chips: self.max_chips,
            require_links: self.require_links,
            strict_counts: self.strict_counts,
        }
    }

    /// Reads the text of a `config.toml`.
    ///
    /// # Errors
    /// Not TOML, or a key or value that is not known: with the line, and the nearest key.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| text.get(..span.start).unwrap_or_default().split('\n').count());
            let at = line.map_or_else(String::new, |line| format!("line {line}: "));
            let said = error.message();
            let unknown = said.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
            match unknown {
                Some((key, rest)) => match nearest(key, rest) {
                    Some(near) => anyhow::anyhow!("{at}unknown key {key}, did you mean {near}?"),
                    None => anyhow::anyhow!("{at}unknown key {key}, there are {}", known_keys(rest).collect::<Vec<_>>().join(", ")),
                },
                None => anyhow::anyhow!("{at}{}", said.trim()),
            }
        })
    }
}

/// The known keys, which are in backticks in serde's message.
fn known_keys(message: &str) -> impl Iterator<Item = &str> {
    message.split('`').skip(1).step_by(2)
}

/// The known key that is most like this one.
fn nearest<'a>(key: &str, message: &'a str) -> Option<&'a str> {
    let (likeness, near) = known_keys(message).map(|near| (strsim::jaro_winkler(key, near), near)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > 0.7).then_some(near)
}

/// What nobody waits for, and what no sum of times overflows with.
const LONGEST_SPAN: Duration = Duration::from_secs(86_400);

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    let span = humantime::parse_duration(&text).map_err(|_| de::Error::custom(format!("{text:?} is no time span such as \"10s\"")))?;
    if span > LONGEST_SPAN {
        return Err(de::Error::custom(format!("{text:?} is more than a day")));
    }
    Ok(span)
}

fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<log::LevelFilter, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| de::Error::custom(format!("{text:?} is no level: off, error, warn, info, debug, trace")))
}

/// Settings, and where they came from.
#[derive(Debug)]
pub struct Loaded {
    /// The settings, or the defaults where the file is at fault.
    pub settings: Settings,
    /// The file that was asked for, if not the default one.
    pub file: Option<PathBuf>,
    /// What is wrong with the file. Who asks for chips is refused then; who does not is served by the defaults (I7).
    pub fault: Option<anyhow::Error>,
}

/// What was said on a command line.
#[derive(Debug, Default, Clone)]
pub struct Flags {
    /// `--settings FILE`
    pub settings: Option<PathBuf>,
    /// `--host-root DIR`
    pub host_root: Option<PathBuf>,
}

impl Loaded {
    /// Flag, environment, file, default.
    #[must_use]
    pub fn new(flags: &Flags, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let from_env = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let file = flags.settings.clone().or_else(|| from_env(FILE_VARIABLE));
        let (mut settings, fault) = match read(file.as_deref()) {
            Ok(settings) => (settings, None),
            Err(fault) => (Settings::default(), Some(fault)),
        };
        if let Some(root) = flags.host_root.clone().or_else(|| from_env(ROOT_VARIABLE)) {
            settings.host_root = Some(root);
        }
        Self { settings, file, fault }
    }

    /// The settings, where the file is in order.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn sound(self) -> Result<(Settings, Option<PathBuf>)> {
        match self.fault {
            None => Ok((self.settings, self.file)),
            Some(fault) => Err(fault),
        }
    }
}

fn read(named: Option<&Path>) -> Result<Settings> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound && named.is_none() => return Ok(Settings::default()),
        Err(error) => return Err(error).with_context(|| format!("the settings {} cannot be opened", path.display())),
    };
    let metadata = file.metadata().with_context(|| format!("the settings {} cannot be looked at", path.display()))?;
    if !metadata.is_file() {
        bail!("the settings {} are no regular file", path.display());
    }
    process::trusted(&metadata).with_context(|| format!("the settings {}", path.display()))?;
    let text = kernel::rest(file, metadata.len()).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
    let text = text.with_context(|| format!("the settings {} cannot be read", path.display()))?;
    Settings::parse(&text).with_context(|| format!("the settings {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        Settings::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_key_can_be_set_and_none_must_be() {
        let set = Settings::parse(
            r#"
            runtimes = ["/usr/bin/crun"]
            accept-env = false
            reserved-chips = [0, 15]
            max-chips = 8
            device-naming = "host"
            manual-devices = "exclusive"
            require-links = false
            strict-counts = true
            ipc-lock = false
            efa = "whole-host"
            wait-limit = "5m"
            lock-timeout = "1m 30s"
            hook-path = "/opt/hook"
            dry-run = true
            log-file = "/tmp/log"
            log-level = "debug"
            state-dir = "/srv/state"
            host-root = "/srv/host"
            "#,
        )
        .unwrap();
        assert_eq!(set.runtimes, ["/usr/bin/crun"]);
        assert_eq!((set.accept_env, set.require_links, set.strict_counts, set.ipc_lock), (false, false, true, false));
        assert_eq!((set.reserved_chips.to_string(), set.max_chips), ("0,15".to_owned(), Some(8)));
        assert_eq!((set.device_naming, set.manual_devices), (Naming::Host, Manual::Exclusive));
        assert!(set.dry_run && set.efa == Efa::WholeHost);
        assert_eq!((set.lock_timeout, set.wait_limit), (Duration::from_secs(90), Duration::from_secs(300)));
        assert_eq!(set.log_level, log::LevelFilter::Debug);
        let default = Settings::parse("").unwrap();
        assert_eq!(default.runtimes, ["runc", "crun"]);
        assert_eq!((default.accept_env, default.require_links, default.strict_counts, default.ipc_lock), (true, true, false, true));
        assert_eq!((default.manual_devices, default.lock_timeout), (Manual::Adopt, Duration::from_secs(10)));
    }

    #[test]
    fn the_installed_file_shows_every_key_at_its_default() {
        let installed = include_str!("../data/config.toml");
        assert!(installed.lines().all(|line| line.is_empty() || line.starts_with('#')), "it sets nothing");
        let shown: String =
            installed.lines().filter(|line| !line.starts_with("# ")).map(|line| line.trim_start_matches('#').to_owned() + "\n").collect();
        let settings = Settings::parse(&shown).unwrap();
        // These three are not set by default; what they are then is `Host`'s.
        let (log, state, root) = ("/var/log/neuron-container-runtime.log", "/run/neuron-container-runtime", "/");
        assert_eq!((settings.log_file.as_deref(), settings.state_dir.as_deref()), (Some(Path::new(log)), Some(Path::new(state))));
        assert_eq!(settings.host_root.as_deref(), Some(Path::new(root)));
        let host = crate::host::Host::new(&Settings::default());
        assert_eq!((host.log.as_path(), host.state.as_path()), (Path::new(log), Path::new(state)));
        assert_eq!(Settings { log_file: None, state_dir: None, host_root: None, ..settings }, Settings::default());
        // Each key of the documentation's table, and no other.
        let keys = include_str!("../docs/settings.md").split("| key | default | what |").nth(1).unwrap().split("\n\n").next().unwrap();
        for key in keys.lines().skip(2).flat_map(|row| row.split('|').nth(1).unwrap().split(',')).map(|key| key.trim().trim_matches('`')) {
            assert!(installed.contains(&format!("{key} = ")), "{key} is not shown");
        }
    }

    #[test]
    fn a_mistake_is_shown_with_its_line_and_the_nearest_key() {
        assert_eq!(fault("accept-env = true\nmax-chip = 3"), "line 2: unknown key max-chip, did you mean max-chips?");
        assert!(fault("colour = 3").starts_with("line 1: unknown key colour, there are runtimes, accept-env, "));
        assert!(fault("\nlock-timeout = \"soon\"").starts_with("line 2: \"soon\" is no time span"));
        assert!(fault("log-level = \"loud\"").contains("is no level: off, error"));
        assert!(fault("reserved-chips = [64]").contains("chip id 64 is beyond 63"));
        assert!(fault("manual-devices = \"keep\"").contains("unknown variant `keep`"));
        assert!(fault("max-chips = ").starts_with("line 1: "));
        assert!(!fault("a = [\n1,\n2").contains('\n'));
    }

    #[test]
    fn the_environment_stands_above_the_file_and_a_flag_above_both() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, "host-root = \"/from-file\"").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        let env = |root: &'static str| {
            let file = file.clone();
            move |name: &str| match name {
                FILE_VARIABLE => Some(file.clone().into()),
                ROOT_VARIABLE => Some(root.into()),
                _ => None,
            }
        };
        let root = |flags: &Flags, from: &'static str| Loaded::new(flags, env(from)).sound().unwrap().0.host_root.unwrap();
        assert_eq!(root(&Flags::default(), ""), Path::new("/from-file"));
        assert_eq!(root(&Flags::default(), "/from-env"), Path::new("/from-env"));
        let flags = Flags { host_root: Some("/from-flag".into()), settings: None };
        assert_eq!(root(&flags, "/from-env"), Path::new("/from-flag"));
    }

    #[test]
    fn a_file_that_others_can_write_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, "accept-env = false").unwrap();
        for (mode, sound) in [(0o644, true), (0o600, true), (0o664, false), (0o666, false), (0o646, false)] {
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
            let loaded = Loaded::new(&Flags { settings: Some(file.clone()), host_root: None }, |_| None);
            assert_eq!(loaded.fault.is_none(), sound, "{mode:o}");
            assert_eq!(loaded.settings.accept_env, !sound, "a broken file counts as its defaults");
        }
        let missing = Loaded::new(&Flags { settings: Some("/nowhere/config.toml".into()), host_root: None }, |_| None);
        assert!(missing.fault.is_some(), "a file that was named must be there");
    }
}
