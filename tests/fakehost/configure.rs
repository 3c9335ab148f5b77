//! `neuron-ctk configure`: engines' files before and after, and the engine that is told. Nothing of the machine's own /etc is touched.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::call::one_error_line;
use crate::host::{FakeHost, NOBODY, listing, rules_over_nobody, skipped, wait_until};

const BEFORE: &str = "{\n    \"debug\": true,\n    \"runtimes\": {}\n}\n";

struct Etc {
    host: FakeHost,
}

impl Etc {
    fn new() -> Self {
        let host = FakeHost::small();
        fs::create_dir(host.folder().join("etc")).unwrap();
        fs::remove_file(host.config_toml()).unwrap();
        Self { host }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.host.folder().join("etc").join(name)
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        self.host.put(&self.path(name), text);
        self.path(name)
    }

    /// `configure ENGINE --config FILE …`, which must go well; gives what was said.
    fn configure(&self, engine: &str, file: &Path, args: &[&str]) -> String {
        let (code, out, err) = self.try_configure(engine, file, args);
        assert_eq!((code, &*err), (Some(0), ""), "{out}");
        out
    }

    /// The same where it must fail; gives the message.
    fn fails(&self, engine: &str, file: &Path, args: &[&str]) -> String {
        let (code, out, err) = self.try_configure(engine, file, args);
        one_error_line(code, &out, &err)
    }

    fn try_configure(&self, engine: &str, file: &Path, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = self.host.program("neuron-ctk");
        // No client but a test's own.
        command.env("PATH", self.host.bin()).args(["configure", engine, "--config"]).arg(file).args(args);
        if engine == "podman" {
            command.arg("--hooks-dir").arg(self.path("hooks.d"));
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn wrapper(&self) -> String {
        self.host.bin().join("neuron-container-runtime").display().to_string()
    }

    /// Everything that is there, with its text.
    fn texts(&self) -> Vec<(PathBuf, String)> {
        let files = listing(&self.host.folder().join("etc")).into_keys().chain([self.host.config_toml()]);
        files.map(|path| (path.clone(), fs::read_to_string(path).unwrap_or_default())).collect()
    }
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// A file for each engine as it may stand there, and one that was not there.
const FILES: [(&str, Option<&str>); 8] = [
    ("docker", Some(BEFORE)),
    ("docker", None),
    ("containerd", Some("version = 2\n# mine\n")),
    ("containerd", None),
    ("crio", Some("[crio.runtime]\ndefault_runtime = \"crun\" # c\n")),
    ("crio", None),
    ("podman", Some("[engine]\nhooks_dir = [\"/a\"]\n")),
    ("podman", None),
];

#[test]
fn every_engine_is_configured_once_and_left_as_it_was() {
    for (engine, before) in FILES {
        let etc = Etc::new();
        let file = before.map_or_else(|| etc.path("new/folder/file"), |before| etc.put("file", before));
        let untouched = etc.texts();
        let said = etc.configure(engine, &file, &["--default"]);
        assert!(text(&file).contains(&etc.wrapper()), "{engine}: {}", text(&file));
        assert!(text(&etc.host.config_toml()).starts_with("accept-env = false # "), "{engine}");
        assert!(said.contains(&format!("{}: ", file.display())) && said.contains("any image could ask by its ENV"), "{said}");
        let once = etc.texts();
        etc.configure(engine, &file, &["--default"]);
        assert_eq!(etc.texts(), once, "{engine}: twice is once");
        etc.configure(engine, &file, &["--remove"]);
        assert_eq!(etc.texts(), untouched, "{engine}");
        assert!(etc.configure(engine, &file, &["--remove"]).contains("nothing of ours is in it"), "{engine}");
        assert_eq!(etc.texts(), untouched, "{engine}");
    }
}

#[test]
fn the_file_as_it_was_lies_beside_the_changed_one() {
    let etc = Etc::new();
    let file = etc.put("daemon.json", BEFORE);
    let said = etc.configure("docker", &file, &[]);
    assert_eq!(text(&etc.path("daemon.json.before-neuron")), BEFORE);
    assert!(said.contains("daemon.json.before-neuron"), "{said}");
    // Changed since: that stays, and the copy goes all the same.
    fs::write(&file, text(&file).replace("true", "false")).unwrap();
    etc.configure("docker", &file, &["--remove"]);
    assert_eq!(text(&file), BEFORE.replace("true", "false"));
    assert!(!etc.path("daemon.json.before-neuron").exists());
}

#[test]
fn no_copy_lies_in_a_folder_that_is_read_whole() {
    let etc = Etc::new();
    fs::create_dir(etc.path("crio.conf.d")).unwrap();
    let file = etc.put("crio.conf.d/10-mine.conf", "[crio.runtime]\n");
    etc.configure("crio", &file, &[]);
    assert!(etc.path("10-mine.conf.before-neuron").exists());
    assert_eq!(fs::read_dir(etc.path("crio.conf.d")).unwrap().count(), 1);
}

#[test]
fn a_dry_run_shows_the_change_and_writes_nothing() {
    let etc = Etc::new();
    let file = etc.put("daemon.json", BEFORE);
    let before = listing(etc.host.folder());
    let shown = etc.configure("docker", &file, &["--default", "--dry-run"]);
    for line in [
        "+accept-env = false",
        "--- /dev/null",
        &format!("--- {}", file.display()),
        "-    \"runtimes\": {}",
        "+        \"neuron\": {",
        "+    \"default-runtime\": \"neuron\"",
    ] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line}:\n{shown}");
    }
    assert_eq!(listing(etc.host.folder()), before);
    etc.configure("docker", &file, &["--default"]);
    let before = listing(etc.host.folder());
    assert_eq!(etc.configure("docker", &file, &["--default", "--dry-run"]), "nothing to change\n");
    assert!(etc.configure("docker", &file, &["--remove", "--dry-run"]).contains("-        \"neuron\": {"));
    assert_eq!(listing(etc.host.folder()), before);
}

#[test]
fn owner_and_mode_stay_and_a_link_stays_a_link() {
    let etc = Etc::new();
    fs::create_dir(etc.path("real")).unwrap();
    let (real, link) = (etc.put("real/daemon.json", BEFORE), etc.path("daemon.json"));
    symlink("real/daemon.json", &link).unwrap();
    fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).unwrap();
    let owned = rules_over_nobody();
    if owned {
        chown(&real, Some(NOBODY), Some(NOBODY)).unwrap();
    } else {
        skipped("no other owner can be set");
    }
    let whose = |path: &Path| fs::metadata(path).map(|metadata| (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())).unwrap();
    let before = whose(&real);
    etc.configure("docker", &link, &[]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(text(&real).contains("neuron"));
    assert_eq!((whose(&real), whose(&etc.path("real/daemon.json.before-neuron"))), (before, before));
    etc.configure("docker", &link, &["--remove"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((text(&real), whose(&real)), (BEFORE.to_owned(), before));
}

#[test]
fn where_one_file_is_broken_none_is_written() {
    for (engine, broken, place) in [
        ("docker", "{\n  \"a\": 1,\n}", "line 3 column 1"),
        ("containerd", "a = 1\nb == 2\n", "line 2, column 4"),
        ("crio", "[crio\n", "line 1, column 6"),
        ("podman", "[engine]\nx\n", "line 2, column 2"),
    ] {
        let etc = Etc::new();
        let file = etc.put("file", broken);
        let before = listing(etc.host.folder());
        for args in [&["--default"][..], &["--remove"], &["--dry-run"]] {
            let message = etc.fails(engine, &file, args);
            assert!(message.contains(&file.display().to_string()) && message.contains(place), "{engine}: {message}");
        }
        assert_eq!(listing(etc.host.folder()), before, "{engine}");
    }
    // Settings that are broken count as their defaults, which accept the environment.
    let etc = Etc::new();
    let file = etc.put("daemon.json", BEFORE);
    etc.host.put(&etc.host.config_toml(), "accept-enw = false\n");
    let message = etc.fails("docker", &file, &["--default"]);
    assert!(message.contains("did you mean accept-env?"), "{message}");
    assert_eq!(text(&file), BEFORE);
}

#[test]
fn without_the_installed_links_nothing_is_written_and_the_remedy_is_said() {
    let etc = Etc::new();
    let file = etc.put("daemon.json", BEFORE);
    fs::remove_file(etc.wrapper()).unwrap();
    let message = etc.fails("docker", &file, &[]);
    assert!(message.contains(&format!("ln -s neuron-ctk {}", etc.wrapper())), "{message}");
    assert_eq!(text(&file), BEFORE);
}

#[test]
fn a_runtime_of_that_name_is_replaced_aloud_and_comes_back() {
    let aws = "{\"runtimes\": {\"neuron\": {\"path\": \"/opt/aws/neuron/bin/oci_neuron_hook_wrapper.sh\"}}}\n";
    let etc = Etc::new();
    let file = etc.put("daemon.json", aws);
    let said = etc.configure("docker", &file, &[]);
    assert!(said.contains("neuron is \"/opt/aws/neuron/bin/oci_neuron_hook_wrapper.sh\" there; that is replaced"), "{said}");
    etc.configure("docker", &file, &["--remove"]);
    assert_eq!(text(&file), aws);
}

#[test]
fn an_import_that_would_hide_the_runtime_is_named() {
    let etc = Etc::new();
    fs::create_dir(etc.path("conf.d")).unwrap();
    let import = etc.put("conf.d/cri.toml", "[plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"p\"\n");
    let file = etc.put("config.toml", "version = 2\nimports = [\"conf.d/*.toml\"]\n");
    let message = etc.fails("containerd", &file, &[]);
    assert!(message.ends_with(&format!("neuron-ctk configure containerd --config {}", import.display())), "{message}");
    etc.configure("containerd", &import, &[]);
    // From version 3 on imports are merged, and the main file stays as it is.
    let file = etc.put("config.toml", "version = 3\nimports = [\"conf.d/*.toml\"]\n");
    etc.configure("containerd", &file, &[]);
    assert_eq!(text(&file), "version = 3\nimports = [\"conf.d/*.toml\"]\n");
    assert!(text(&etc.path("conf.d/99-neuron.toml")).contains(&etc.wrapper()));
}

#[test]
fn wrong_usage() {
    let etc = Etc::new();
    let file = etc.path("file");
    for args in [&["--default", "--remove"][..], &["--frobnicate"]] {
        assert_eq!(etc.try_configure("docker", &file, args).0, Some(2), "{args:?}");
    }
    assert_eq!(etc.try_configure("lxc", &file, &[]).0, Some(2));
    assert!(etc.fails("docker", &file, &["--hooks-dir", "/x"]).contains("is for podman"));
}

/// A program called like this that reads its file at each SIGHUP, and as dockerd keeps its runtimes where the file names none; it
/// ends with the test.
struct Daemon {
    child: Child,
    read: PathBuf,
}

impl Daemon {
    fn start(etc: &Etc, name: &str, args: &[&str]) -> Self {
        let (script, ready, file, read) = (etc.path(name), etc.path("ready"), etc.path("daemon.json"), etc.path("read"));
        let text = format!(
            "#!/bin/sh\ntrap 'grep -q runtimes {file} && cat {file} > {read}' HUP\n: > {ready}\nwhile :; do sleep 0.05; done\n",
            file = file.display(),
            read = read.display(),
            ready = ready.display()
        );
        etc.put(name, &text);
        fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let child = Command::new(&script).args(args).stdin(Stdio::null()).spawn().unwrap();
        wait_until("the daemon", || ready.exists());
        Self { child, read }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of the daemon that listens at this socket.
fn put_client(etc: &Etc, daemon: &Daemon) {
    let script = format!(
        "#!/bin/sh\n[ \"$DOCKER_HOST\" = unix:///run/a.sock ] || exit 1\nif /bin/grep -q neuron-container {} 2>/dev/null; then echo '{{\"neuron\":{{}}}}'; else echo '{{\"runc\":{{}}}}'; fi\n",
        daemon.read.display()
    );
    let client = etc.host.bin().join("docker");
    etc.host.put(&client, &script);
    fs::set_permissions(&client, PermissionsExt::from_mode(0o755)).unwrap();
}

fn daemon_json(etc: &Etc, pid: u32) -> PathBuf {
    let pidfile = etc.put("pid", &pid.to_string());
    etc.put("daemon.json", &format!("{{\"pidfile\": \"{}\", \"hosts\": [\"unix:///run/a.sock\"]}}\n", pidfile.display()))
}

#[test]
fn dockerd_is_told_to_read_its_file_and_asked_whether_it_did() {
    let etc = Etc::new();
    let daemon = Daemon::start(&etc, "dockerd", &[]);
    put_client(&etc, &daemon);
    let (file, pid) = (daemon_json(&etc, daemon.child.id()), daemon.child.id());
    let before = text(&file);
    etc.configure("docker", &file, &["--dry-run"]);
    assert!(!daemon.read.exists(), "a dry run tells nobody");
    let said = etc.configure("docker", &file, &["--default"]);
    assert!(said.contains(&format!("dockerd (pid {pid}) has read it: docker info knows the runtime neuron")), "{said}");
    let said = etc.configure("docker", &file, &["--remove"]);
    assert!(said.contains(&format!("dockerd (pid {pid}) has read it and does not know the runtime neuron any more")), "{said}");
    // What it does not find mentioned it would keep.
    let read = text(&daemon.read);
    assert!(read.contains("\"runtimes\": {}") && read.contains("\"default-runtime\": \"runc\""), "{read}");
    assert_eq!(text(&file), before);
    fs::remove_file(&daemon.read).unwrap();
    etc.configure("docker", &file, &["--remove"]);
    assert!(!daemon.read.exists(), "where nothing is taken out nobody is told");
}

#[test]
fn without_a_client_it_is_said_that_nobody_could_be_asked() {
    let etc = Etc::new();
    let daemon = Daemon::start(&etc, "dockerd", &[]);
    let file = daemon_json(&etc, daemon.child.id());
    let said = etc.configure("docker", &file, &[]);
    assert!(said.contains("whether it has cannot be seen: there is no docker client"), "{said}");
}

#[test]
fn a_pid_that_is_another_programs_by_now_is_not_signalled() {
    let etc = Etc::new();
    let other = Daemon::start(&etc, "another", &[]);
    put_client(&etc, &other);
    let file = daemon_json(&etc, other.child.id());
    let said = etc.configure("docker", &file, &[]);
    assert!(said.contains("no dockerd of this file was found running"), "{said}");
    assert!(!other.read.exists());
}

#[test]
fn a_default_that_stands_on_dockerds_command_line_is_not_written_into_its_file() {
    let etc = Etc::new();
    let daemon = Daemon::start(&etc, "dockerd", &["--default-runtime", "runc"]);
    let file = daemon_json(&etc, daemon.child.id());
    let before = text(&file);
    let message = etc.fails("docker", &file, &["--default"]);
    assert!(message.contains("was started with --default-runtime"), "{message}");
    assert_eq!(text(&file), before);
}
