//! A stand-in for runc: records what it is given, then does to a bundle what `create` does, with a sleeping process for a container.
//!
//! It reads its orders from two variables that the wrapper passes on: `STANDIN_RECORD`, an empty folder to write into, and `STANDIN_DO`,
//! words with commas between them:
//!
//! - `nothing`: record only
//! - `fail-before-hook`: fail with the process started and the hook not yet run
//! - `hold-before-hook`, `hold-after-hook`: write the file `holding`, go on when it is removed
//! - `swap-node`: put another chip's node in the place of the first
//! - `extra-node`: put one more node beside those that were asked for
//! - `hook-twice`: run each hook twice
//! - `as-crun`: give `/` as working directory and bundle, as crun does in a user namespace
//!
//! In the folder: `argv`, `environ` (NUL after each), `config.json` and the file of `exec --process` (`process.json`) as found, `init` (pid and start of the container's process),
//! `hook-N.code`, `hook-N.stderr`, `hook-N.environ`.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a program for tests: a fault in it is to be loud")]

use std::env;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::stat::{Mode, SFlag, major, makedev, minor, mknod};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The argument by which this program is its own container.
const INIT: &str = "--be-the-container";

/// The argument by which it only has a file open that it cannot use.
const NAME: &str = "--name-a-file";

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().collect();
    if args.get(1).is_some_and(|arg| arg == INIT) {
        be_the_container(Path::new(&args[2]));
        return ExitCode::SUCCESS;
    }
    if let [_, first, file, ready] = &*args
        && first == NAME
    {
        name_a_file(Path::new(file), Path::new(ready));
        return ExitCode::SUCCESS;
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stand-in: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What `exec` names by `--process`, if it is there.
fn process_file(args: &[OsString]) -> Option<PathBuf> {
    let attached = || args.iter().find_map(|arg| arg.as_bytes().strip_prefix(b"--process=").map(OsStr::from_bytes));
    let file = PathBuf::from(value_of(args, "--process").or_else(attached)?);
    file.exists().then_some(file)
}

/// Opens the file so that its file system is not asked (O_PATH), says so, and lives as the other does.
fn name_a_file(file: &Path, ready: &Path) {
    let _named = OpenOptions::new().read(true).custom_flags(nix::libc::O_PATH).open(file).unwrap();
    fs::write(ready, "").unwrap();
    be_the_container(ready);
}

/// Lives until it is killed; at the latest until the test's folder is removed.
fn be_the_container(record: &Path) {
    nix::unistd::setsid().unwrap();
    let end = Instant::now() + Duration::from_secs(300);
    while record.exists() && Instant::now() < end {
        sleep(Duration::from_millis(50));
    }
}

fn run(args: &[OsString]) -> Result<()> {
    let record = PathBuf::from(env::var_os("STANDIN_RECORD").ok_or("STANDIN_RECORD is not set")?);
    let orders = env::var("STANDIN_DO").unwrap_or_default();
    let told = |order: &str| orders.split(',').any(|word| word == order);
    let bundle = PathBuf::from(value_of(args, "--bundle").unwrap_or(OsStr::new(".")));
    let config = fs::read(bundle.join("config.json"));
    if let Ok(config) = &config {
        fs::write(record.join("config.json"), config)?;
    }
    if let Some(process) = process_file(args) {
        fs::copy(process, record.join("process.json"))?;
    }
    fs::write(record.join("environ"), fs::read("/proc/self/environ")?)?;
    let argv: Vec<u8> = args.iter().flat_map(|arg| arg.as_bytes().iter().copied().chain([0])).collect();
    // The last of the three, so that who sees it sees all.
    fs::write(record.join("argv"), argv)?;
    if told("nothing") || !args.iter().any(|arg| arg == "create" || arg == "run") {
        return Ok(());
    }
    let spec: Value = serde_json::from_slice(&config?)?;
    let rootfs = bundle.join(spec["root"]["path"].as_str().unwrap());
    make_dev(&spec, &rootfs)?;
    if told("swap-node") {
        swap_node(&rootfs.join("dev/neuron0"))?;
    }
    if told("extra-node") {
        fs::hard_link(rootfs.join("dev/neuron0"), rootfs.join("dev/neuron63"))?;
    }
    let mut init = start_init(&record)?;
    let created = create(&spec, &record, &init, &bundle, args.last().unwrap(), &told);
    match created {
        Ok(()) => {
            if let Some(file) = value_of(args, "--pid-file") {
                fs::write(file, init.id().to_string())?;
            }
            Ok(())
        }
        Err(error) => {
            init.kill()?;
            init.wait()?;
            Err(error)
        }
    }
}

/// What happens while the container's process is there and the container is not yet created.
fn create(spec: &Value, record: &Path, init: &Child, bundle: &Path, id: &OsStr, told: &dyn Fn(&str) -> bool) -> Result<()> {
    if told("fail-before-hook") {
        return Err("told to fail before the hook".into());
    }
    if told("hold-before-hook") {
        hold(record)?;
    }
    let place = if told("as-crun") { Path::new("/") } else { bundle };
    let state = json!({
        "ociVersion": if told("as-crun") { "1.0" } else { "1.0.2" },
        "id": id.to_str(),
        "status": if told("as-crun") { "created" } else { "creating" },
        "pid": init.id(),
        "bundle": place,
        "annotations": spec["annotations"],
    });
    let hooks = spec["hooks"]["createRuntime"].as_array().map(Vec::as_slice).unwrap_or_default();
    let times = if told("hook-twice") { 2 } else { 1 };
    for (number, hook) in (0..times).flat_map(|_| hooks).enumerate() {
        run_hook(hook, &state.to_string(), place, &record.join(format!("hook-{number}")))?;
    }
    if told("hold-after-hook") {
        hold(record)?;
    }
    Ok(())
}

/// The value of a flag, in the two spellings that the tests use.
fn value_of<'a>(args: &'a [OsString], flag: &str) -> Option<&'a OsStr> {
    args.iter().enumerate().rev().find_map(|(position, arg)| {
        if arg == flag {
            return args.get(position + 1).map(OsString::as_os_str);
        }
        let attached = arg.as_bytes().strip_prefix(flag.as_bytes())?.strip_prefix(b"=")?;
        Some(OsStr::from_bytes(attached))
    })
}

/// Mounts in their order, then device nodes, as runtimes do.
fn make_dev(spec: &Value, rootfs: &Path) -> Result<()> {
    let dev = rootfs.join("dev");
    let within = |path: &str| rootfs.join(path.trim_start_matches('/'));
    if !dev.exists() {
        fs::create_dir_all(&dev)?;
    }
    for mount in spec["mounts"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let destination = mount["destination"].as_str().unwrap();
        if destination == "/dev" {
            // An empty tmpfs over all that was there.
            fs::remove_dir_all(&dev)?;
            fs::create_dir(&dev)?;
        } else if mount["type"] == "bind" && destination.starts_with("/dev/neuron") {
            fs::hard_link(mount["source"].as_str().unwrap(), within(destination))?;
        }
    }
    for device in spec["linux"]["devices"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let number = |key: &str| device[key].as_u64().unwrap();
        let path = within(device["path"].as_str().unwrap());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        match make_node(&path, number("major"), number("minor")) {
            Ok(()) => {
                let mode = device["fileMode"].as_u64().map_or(0o666, |mode| u32::try_from(mode).unwrap());
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
            // Without root a regular file stands for the node, in a simulated host and here.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => fs::hard_link(simulated_node(number("minor")), &path)?,
            // What a bind mount put there wins.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn make_node(path: &Path, major: u64, minor: u64) -> std::io::Result<()> {
    mknod(path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(major, minor)).map_err(Into::into)
}

fn simulated_node(minor: u64) -> PathBuf {
    Path::new(&env::var_os("NEURON_HOST_ROOT").unwrap()).join(format!("dev/neuron{minor}"))
}

/// Puts the last chip's node of a 16-chip host in this one's place.
fn swap_node(path: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    fs::remove_file(path)?;
    if metadata.file_type().is_char_device() {
        assert_ne!(minor(metadata.rdev()), 15);
        make_node(path, major(metadata.rdev()), 15)?;
    } else {
        fs::hard_link(simulated_node(15), path)?;
    }
    Ok(())
}

fn start_init(record: &Path) -> Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(INIT).arg(record).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let init = command.spawn()?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", init.id()))?;
    let start = stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap();
    fs::write(record.join("init"), format!("{} {start}", init.id()))?;
    Ok(init)
}

fn hold(record: &Path) -> Result<()> {
    let file = record.join("holding");
    fs::write(&file, "")?;
    let end = Instant::now() + Duration::from_secs(60);
    while file.exists() {
        if Instant::now() > end {
            return Err("nobody told me to go on".into());
        }
        sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Runs a hook as the runtime specification says: its very arguments, its environment alone, the state on stdin.
fn run_hook(hook: &Value, state: &str, place: &Path, record: &Path) -> Result<()> {
    let texts = |key: &str| hook[key].as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let args = texts("args");
    let environ = texts("env");
    fs::write(record.with_extension("environ"), environ.join("\0"))?;
    let mut command = Command::new(hook["path"].as_str().unwrap());
    command.arg0(args.first().unwrap()).args(&args[1..]).current_dir(place).env_clear();
    command.envs(environ.iter().filter_map(|entry| entry.split_once('=')));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    // A hook that ends without reading is not this program's fault.
    let _ = child.stdin.take().unwrap().write_all(state.as_bytes());
    let output = child.wait_with_output()?;
    fs::write(record.with_extension("stderr"), &output.stderr)?;
    fs::write(record.with_extension("code"), output.status.code().map_or("none".to_owned(), |code| code.to_string()))?;
    if !output.status.success() {
        std::io::stderr().write_all(&output.stderr)?;
        return Err("a hook failed".into());
    }
    Ok(())
}
