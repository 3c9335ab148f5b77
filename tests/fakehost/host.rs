//! A host of a test's own: simulated chips, the installed links, settings, bundles; all in one folder that goes with the test.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::call::{Call, Init, Running};

pub(crate) struct FakeHost {
    folder: TempDir,
    calls: Cell<u32>,
}

/// A folder with a `config.json` and an empty root.
pub(crate) struct Bundle {
    pub(crate) folder: PathBuf,
}

impl Bundle {
    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join("config.json")
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.config()).unwrap()
    }

    pub(crate) fn spec(&self) -> Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    pub(crate) fn write(&self, spec: &Value) {
        fs::write(self.config(), serde_json::to_string(spec).unwrap()).unwrap();
    }
}

/// Something that can be wrong with a host, and how it comes to be.
pub(crate) type Fault = (&'static str, fn(&FakeHost));

/// What a folder holds, so that any change shows: path to kind, mode, size, inode, times of change.
pub(crate) type Listing = BTreeMap<PathBuf, String>;

impl FakeHost {
    /// A host as `neuron-ctk simulate` makes it.
    pub(crate) fn new(kind: &str) -> Self {
        Self::simulated(&[kind])
    }

    /// trn1.2xlarge, one chip: for what does not depend on how many there are.
    pub(crate) fn small() -> Self {
        Self::new("trn1.2xlarge")
    }

    /// trn1.32xlarge: sixteen chips of two cores in a 4×4 torus.
    pub(crate) fn trn1() -> Self {
        Self::new("trn1.32xlarge")
    }

    /// A host by `simulate`'s arguments without the folder.
    pub(crate) fn simulated(args: &[&str]) -> Self {
        let host = Self { folder: tempfile::tempdir_in(place()).unwrap(), calls: Cell::new(0) };
        // For those tests that look as another user.
        open_to_all(host.folder.path());
        fs::create_dir(host.bin()).unwrap();
        for name in ["neuron-ctk", "neuron-container-runtime", "neuron-container-hook"] {
            symlink(built(env!("CARGO_BIN_EXE_neuron-ctk").as_ref()), host.bin().join(name)).unwrap();
        }
        // Under the name of the default setting too, for what runs when the settings are broken.
        for name in ["standin-runtime", "runc"] {
            symlink(standin(), host.bin().join(name)).unwrap();
        }
        host.settings("");
        let made = host.program("neuron-ctk").arg("simulate").args(args).arg(host.root()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        host
    }

    /// The folder of everything.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that stands for `/`.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder().join("host")
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root().join(below)
    }

    pub(crate) fn bin(&self) -> PathBuf {
        self.folder().join("bin")
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path("run/neuron-container-runtime")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.state_dir().join("ledger.json")
    }

    pub(crate) fn config_toml(&self) -> PathBuf {
        self.folder().join("config.toml")
    }

    /// The log of the tool, empty where there is none.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("var/log/neuron-container-runtime.log")).unwrap_or_default()
    }

    /// Settings with the stand-in as runtime, and these lines.
    pub(crate) fn settings(&self, lines: &str) {
        let runtime = self.bin().join("standin-runtime");
        self.put(&self.config_toml(), &format!("runtimes = [\"{}\"]\n{lines}\n", runtime.display()));
    }

    /// Writes a file that only its owner may write, whatever the umask.
    pub(crate) fn put(&self, path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o644)).unwrap();
    }

    /// A ledger of this boot with these leases, as another process might have left it.
    pub(crate) fn put_ledger(&self, boot_id: &str, leases: &[Value]) {
        self.make_state_dir();
        self.put(&self.ledger(), &json!({"version": 1, "boot_id": boot_id, "leases": leases}).to_string());
    }

    pub(crate) fn make_state_dir(&self) {
        fs::create_dir_all(self.state_dir()).unwrap();
        fs::set_permissions(self.state_dir(), PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// One of the links, in an environment without anything of the tester's.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin().join(name));
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.bin().display());
        command.env_clear().env("PATH", path).current_dir(self.folder()).stdin(Stdio::null());
        command.env("NEURON_SETTINGS", self.config_toml()).env("NEURON_HOST_ROOT", self.root());
        command
    }

    pub(crate) fn ctk(&self, args: &[&str]) -> Output {
        self.program("neuron-ctk").args(args).output().unwrap()
    }

    /// `status --json`.
    pub(crate) fn status(&self) -> Value {
        let output = self.ctk(&["status", "--json"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Container and chips of each lease that `status` shows.
    pub(crate) fn leases(&self) -> Vec<(String, Vec<u64>)> {
        let status = self.status();
        let chips = |lease: &Value| lease["chips"].as_array().unwrap().iter().map(|chip| chip.as_u64().unwrap()).collect();
        status["leases"].as_array().unwrap().iter().map(|lease| (lease["container"].as_str().unwrap().to_owned(), chips(lease))).collect()
    }

    /// The chips that `status` shows in this state.
    pub(crate) fn chips_in(&self, state: &str) -> Vec<u64> {
        let chips = self.status()["chips"].as_array().unwrap().clone();
        chips.iter().filter(|chip| chip["state"] == state).map(|chip| chip["id"].as_u64().unwrap()).collect()
    }

    /// The major number of the nodes, from sysfs.
    pub(crate) fn major(&self) -> u64 {
        let dev = fs::read_to_string(self.path("sys/class/neuron_device/neuron0/dev")).unwrap();
        dev.split(':').next().unwrap().parse().unwrap()
    }

    /// Are there device nodes? Without root regular files stand for them.
    pub(crate) fn real_nodes(&self) -> bool {
        fs::symlink_metadata(self.path("dev/neuron0")).unwrap().file_type().is_char_device()
    }

    pub(crate) fn bundle(&self, name: &str, spec: &Value) -> Bundle {
        self.bundle_of_text(name, &serde_json::to_string(spec).unwrap())
    }

    pub(crate) fn bundle_of_text(&self, name: impl AsRef<Path>, text: &str) -> Bundle {
        let folder = self.folder().join("bundles").join(name);
        fs::create_dir_all(folder.join("rootfs")).unwrap();
        let bundle = Bundle { folder };
        fs::write(bundle.config(), text).unwrap();
        bundle
    }

    /// The wrapper with these arguments, not yet started; and the folder that the stand-in will write into.
    pub(crate) fn wrapper(&self, args: &[&OsStr], orders: &str) -> (Command, PathBuf) {
        let number = self.calls.get();
        self.calls.set(number + 1);
        let record = self.folder().join(format!("records/{number}"));
        fs::create_dir_all(&record).unwrap();
        let mut command = self.program("neuron-container-runtime");
        command.args(args).env("STANDIN_RECORD", &record).env("STANDIN_DO", orders);
        (command, record)
    }

    /// Calls the wrapper with these arguments.
    pub(crate) fn call(&self, args: &[&OsStr], orders: &str) -> Call {
        let (command, record) = self.wrapper(args, orders);
        Running::start(command, record).finish()
    }

    /// Begins to create a container as containerd's shim does.
    pub(crate) fn start(&self, bundle: &Bundle, id: &str, orders: &str) -> Running {
        let (mut command, record) = self.wrapper(&[], orders);
        command.args(["--root", "/run/standin", "--log"]).arg(record.join("log.json")).args(["--log-format", "json", "create", "--bundle"]);
        command.arg(&bundle.folder).arg("--pid-file").arg(record.join("init.pid")).arg(id);
        Running::start(command, record)
    }

    pub(crate) fn create_with(&self, bundle: &Bundle, id: &str, orders: &str) -> Call {
        self.start(bundle, id, orders).finish()
    }

    pub(crate) fn create(&self, bundle: &Bundle, id: &str) -> Call {
        self.create_with(bundle, id, "")
    }

    /// Creates a container from a spec, in a bundle of its own; it must begin.
    pub(crate) fn begin(&self, id: &str, spec: &Value) -> Call {
        self.create(&self.bundle(id, spec), id).ok()
    }

    /// Tries to create a container that is to be refused; gives the message.
    ///
    /// Asserts all that a refusal promises: one line to people, one to the engine, no runtime, no lease, nothing changed.
    pub(crate) fn refuses(&self, id: &str, spec: &Value) -> String {
        let bundle = self.bundle(id, spec);
        self.refuses_bundle(&bundle, id)
    }

    pub(crate) fn refuses_bundle(&self, bundle: &Bundle, id: &str) -> String {
        let (status, folder) = (self.ctk(&["status", "--json"]), listing(&bundle.folder));
        let call = self.create(bundle, id);
        let message = call.refusal();
        assert!(!call.ran(), "the runtime ran: {message}");
        let after = self.ctk(&["status", "--json"]);
        assert_eq!((after.status, after.stdout, after.stderr), (status.status, status.stdout, status.stderr), "{message}");
        // The folder's own time changes where a temporary file came and went.
        let without_itself = |mut listing: Listing| {
            listing.remove(&bundle.folder);
            listing
        };
        assert_eq!(without_itself(listing(&bundle.folder)), without_itself(folder), "{message}");
        message
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        for call in fs::read_dir(self.folder().join("records")).into_iter().flatten().flatten() {
            if let Some(init) = Init::read(&call.path()) {
                init.send_kill();
            }
        }
    }
}

/// The stand-in, which `cargo test` builds as an example.
fn standin() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_neuron-ctk")).with_file_name("examples").join("standin-runtime");
    assert!(path.exists(), "{} is missing: cargo build --examples makes it, and cargo test without --test", path.display());
    built(&path)
}

/// A program of this build, closed to others' writing: a umask of 002 leaves it open, and then it is not trusted.
fn built(path: &Path) -> PathBuf {
    static CLOSING: OnceLock<()> = OnceLock::new();
    CLOSING.get_or_init(|| {
        let examples = Path::new(env!("CARGO_BIN_EXE_neuron-ctk")).with_file_name("examples");
        for path in [Path::new(env!("CARGO_BIN_EXE_neuron-ctk")), &examples.join("standin-runtime")] {
            let Ok(metadata) = fs::metadata(path) else { continue };
            if metadata.mode() & 0o022 != 0 {
                fs::set_permissions(path, PermissionsExt::from_mode(metadata.mode() & 0o7755)).unwrap();
            }
        }
    });
    path.to_owned()
}

/// Where the tests' folders are: in memory where the tester names no place, for each host is some hundred files.
fn place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let named = std::env::var_os("TMPDIR").is_some();
    if !named && tempfile::tempfile_in(memory).is_ok() { memory.to_owned() } else { std::env::temp_dir() }
}

fn open_to_all(folder: &Path) {
    fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Everything in a folder and the folder itself.
pub(crate) fn listing(folder: &Path) -> Listing {
    let mut all = Listing::new();
    let mut left = vec![folder.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let (changed, written) = ((metadata.ctime(), metadata.ctime_nsec()), (metadata.mtime(), metadata.mtime_nsec()));
        let seen = format!("{:o} {} {} {changed:?} {written:?}", metadata.mode(), metadata.len(), metadata.ino());
        all.insert(path, seen);
    }
    all
}

/// Waits for something that is bound to come; ten seconds are longer than any machine needs for it.
pub(crate) fn wait_until(what: &str, come: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !come() {
        assert!(Instant::now() < end, "{what} did not come");
        sleep(Duration::from_millis(2));
    }
}

/// The kernel's id of this boot.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
}

/// Says why a test has nothing to test here.
pub(crate) fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// Can files and processes be given to the user `nobody`? Not without root, nor as the root of a namespace that knows no such user.
pub(crate) fn rules_over_nobody() -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    is_root() && std::os::unix::fs::chown(file.path(), Some(NOBODY), None).is_ok()
}

/// A user that owns nothing.
pub(crate) const NOBODY: u32 = 65534;

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}
