//! The argument list of an OCI runtime, in each spelling that engines and people use.
//!
//! Pure. runc reads flags as Go's `flag` does (`-x` is `--x`, flags end at the first argument that is none), crun as getopt does
//! (flags anywhere, short ones with the value attached). What either would take for the bundle is taken for it here.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What the wrapper has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `create` or `run`: a container begins.
    Begin,
    /// `restore`: a container goes on from a checkpoint.
    Restore,
    /// `exec`: another process in a container that runs.
    Exec,
    /// Everything else goes straight through.
    Other,
}

/// What is understood of an argument list.
#[derive(Debug, PartialEq, Eq)]
pub struct Invocation<'a> {
    /// What is to be done.
    pub action: Action,
    /// `--bundle`; the working directory where it is not given.
    pub bundle: Option<&'a Path>,
    /// crun's `--config`: another name for `config.json`.
    pub config: Option<&'a Path>,
    /// `--root`
    pub root: Option<&'a OsStr>,
    /// `--log`
    pub log: Option<&'a Path>,
    /// Is `--log-format` json?
    pub json: bool,
    /// The container's id.
    pub id: Option<&'a OsStr>,
    /// `--process` of `exec`.
    pub process: Option<ProcessFile<'a>>,
}

/// A file that describes the process of an `exec`, and where it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessFile<'a> {
    /// The file.
    pub path: &'a Path,
    /// The position of the argument that ends with it; before it stands nothing, or a flag and `=`.
    pub position: usize,
}

/// Global flags of runc 1.1 to 1.3 and crun 1.8 to 1.28 that take a value.
const GLOBAL: [&str; 6] = ["root", "log", "log-format", "criu", "rootless", "cgroup-manager"];
/// Flags of `create`, `run` and `restore` that take a value, in both.
const LOCAL: [&str; 18] = [
    "bundle",
    "config",
    "console-socket",
    "pid-file",
    "pidfd-socket",
    "preserve-fds",
    "image-path",
    "work-path",
    "manage-cgroups-mode",
    "empty-ns",
    "lsm-profile",
    "lsm-mount-context",
    "page-server",
    "parent-path",
    "status-fd",
    "network-lock",
    "b",
    "f",
];
/// Subcommands of runc and crun: where a flag is not known, the next argument is its value unless it is one of these.
const SUBCOMMANDS: [&str; 20] = [
    "checkpoint",
    "create",
    "delete",
    "events",
    "exec",
    "features",
    "help",
    "init",
    "kill",
    "list",
    "mounts",
    "pause",
    "ps",
    "restore",
    "resume",
    "run",
    "spec",
    "start",
    "state",
    "update",
];

/// Flags of `exec` that take a value, in both.
const EXEC: [&str; 18] = [
    "process",
    "console-socket",
    "cwd",
    "env",
    "user",
    "additional-gids",
    "pid-file",
    "process-label",
    "apparmor",
    "cap",
    "cgroup",
    "preserve-fds",
    "p",
    "e",
    "u",
    "g",
    "a",
    "c",
];

/// Reads the arguments after the program's name.
#[must_use]
pub fn scan<'a, S: AsRef<OsStr>>(args: &'a [S]) -> Invocation<'a> {
    let mut found =
        Invocation { action: Action::Other, bundle: None, config: None, root: None, log: None, json: false, id: None, process: None };
    let mut args = args.iter().map(AsRef::as_ref).enumerate().peekable();
    let mut subcommand: Option<&OsStr> = None;
    let mut helps = false;
    while let Some((position, arg)) = args.next() {
        if arg == "--" && subcommand.is_none() {
            continue;
        }
        if arg == "--" && found.action == Action::Exec {
            found.id = args.next().map(|(_, id)| id);
            break;
        }
        if arg == "--" {
            // Only arguments follow; the id is the last of them.
            found.id = args.last().map(|(_, id)| id).or(found.id);
            break;
        }
        let Some((name, value)) = flag(arg) else {
            match subcommand {
                None => {
                    subcommand = Some(arg);
                    found.action = action(arg);
                }
                // What follows is a command with flags of its own.
                Some(_) if found.action == Action::Exec => {
                    found.id = Some(arg);
                    break;
                }
                // One argument only is allowed; a value of a flag that we do not know may stand before it.
                Some(_) => found.id = Some(arg),
            }
            continue;
        };
        helps |= HELP.iter().any(|known| name == *known);
        let takes = match subcommand {
            None => GLOBAL.iter().any(|known| name == *known),
            Some(_) if found.action == Action::Exec => EXEC.iter().any(|known| name == *known),
            Some(_) => LOCAL.iter().any(|known| name == *known),
        };
        let value = match value {
            Some(value) => Some((position, value)),
            None if takes => args.next(),
            // An unknown global flag: what follows is its value, or else the subcommand.
            None => {
                let stranger = subcommand.is_none() && !KNOWN_SWITCHES.iter().chain(&HELP).any(|known| name == *known);
                let next_is_value =
                    |(_, next): &(usize, &OsStr)| stranger && flag(next).is_none() && !SUBCOMMANDS.iter().any(|known| *next == *known);
                args.next_if(next_is_value);
                None
            }
        };
        let Some((position, value)) = value else { continue };
        match (subcommand, name.as_bytes()) {
            (None, b"root") => found.root = Some(value),
            (None, b"log") => found.log = Some(Path::new(value)),
            (None, b"log-format") => found.json = value == "json",
            (Some(_), b"process" | b"p") if found.action == Action::Exec => {
                found.process = Some(ProcessFile { path: Path::new(value), position });
            }
            (Some(_), b"bundle" | b"b") => found.bundle = Some(Path::new(value)),
            (Some(_), b"config" | b"f") => found.config = Some(Path::new(value)),
            _ => {}
        }
    }
    if helps {
        found.action = Action::Other;
    }
    found
}

/// Global flags without a value.
const KNOWN_SWITCHES: [&str; 2] = ["debug", "systemd-cgroup"];
/// Flags that only print something.
const HELP: [&str; 6] = ["help", "h", "?", "usage", "version", "v"];

fn action(subcommand: &OsStr) -> Action {
    match subcommand.as_bytes() {
        b"create" | b"run" => Action::Begin,
        b"restore" => Action::Restore,
        b"exec" => Action::Exec,
        _ => Action::Other,
    }
}

/// A flag's name without dashes, and its value where that is attached: `--bundle=B`, `-bundle=B`, `-b=B`, `-bB`.
fn flag(arg: &OsStr) -> Option<(&OsStr, Option<&OsStr>)> {
    let bytes = arg.as_bytes();
    let name = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-")).filter(|name| !name.is_empty())?;
    let mut parts = name.splitn(2, |byte| *byte == b'=').map(OsStr::from_bytes);
    if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        return Some((name, Some(value)));
    }
    // crun's short flags with the value attached; Go has none, and would take `-b/x` for a flag of that name.
    if let [short @ (b'b' | b'f'), value @ ..] = name
        && !bytes.starts_with(b"--")
        && matches!(value.first(), Some(b'/' | b'.'))
    {
        return Some((OsStr::from_bytes(std::slice::from_ref(short)), Some(OsStr::from_bytes(value))));
    }
    Some((OsStr::from_bytes(name), None))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    /// As engines call it, by the field notes, and as people may.
    #[test]
    fn every_spelling_names_the_same_bundle_and_id() {
        for line in [
            "--root /r --log /l --log-format json create --bundle /b --pid-file /b/init.pid ID",
            "--root /r --log /l --log-format json create --bundle /b --pid-file /b/init.pid --console-socket /s ID",
            "--root=/r --log=/l --log-format=json create --bundle=/b --pid-file=/b/init.pid ID",
            "-root /r -log /l -log-format json create -bundle /b ID",
            "-root=/r -log=/l -log-format=json create -bundle=/b ID",
            "--systemd-cgroup --debug --rootless=auto --root /r --log /l --log-format json create -b /b ID",
            "--root /r --log /l --log-format json --criu /c run --detach --no-pivot --no-new-keyring --preserve-fds 3 -b=/b ID",
            "--cgroup-manager cgroupfs --root /r --log /l --log-format json create ID --bundle /b",
            "--root /r --log /l --log-format json create -b/b ID",
            "--root /r --log /l --log-format json -- create --bundle /b ID",
            "--root /r --log /l --log-format json create --bundle /x --bundle /b -- ID",
            "--root /r --log /l --log-format text --log-format json create --pidfd-socket /p --bundle /b ID",
            "--unknown --root /r --log /l --log-format json create --unheard-of --bundle /b ID",
            "--unknown value --root /r --log /l --log-format json create --unheard-of value --bundle /b ID",
            "--unknown=create --root /r --log /l --log-format json run --unheard-of=value --bundle /b ID",
        ] {
            let args = words(line);
            let found = scan(&args);
            let expected = Invocation {
                action: Action::Begin,
                bundle: Some(Path::new("/b")),
                config: None,
                root: Some(OsStr::new("/r")),
                log: Some(Path::new("/l")),
                json: true,
                id: Some(OsStr::new("ID")),
                process: None,
            };
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn podman_gives_no_root_and_people_no_bundle() {
        let args = words("--log-format=json --log /f create --bundle /b --pid-file /p ID");
        let found = scan(&args);
        assert_eq!((found.root, found.log, found.json), (None, Some(Path::new("/f")), true));
        let args = words("run ID");
        assert_eq!((scan(&args).bundle, scan(&args).id), (None, Some(OsStr::new("ID"))));
        let args = words("create -f other.json ID");
        assert_eq!(scan(&args).config, Some(Path::new("other.json")));
    }

    #[test]
    fn other_subcommands_are_none_of_our_business() {
        for line in [
            "",
            "--version",
            "-v",
            "features",
            "start ID",
            "kill ID 15",
            "delete --force ID",
            "state ID",
            "ps --format json ID",
            "list",
            "exec --help ID",
            "update --resources - ID",
            "checkpoint ID",
            "create-something ID",
            "--help create",
            "create --help",
            "run -h",
        ] {
            let args = words(line);
            assert_eq!(scan(&args).action, Action::Other, "{line}");
        }
        let args = words("restore --image-path /i --bundle /b ID");
        assert_eq!((scan(&args).action, scan(&args).id), (Action::Restore, Some(OsStr::new("ID"))));
    }

    #[test]
    fn a_session_is_for_the_first_argument_that_is_no_flag() {
        for (line, process) in [
            ("--root /r exec --process /p --detach --pid-file /f ID", Some(("/p", 4))),
            ("--root /r exec --process=/p ID", Some(("/p", 3))),
            ("--root /r exec -p /p -t --console-socket /s ID", Some(("/p", 4))),
            ("--root /r exec -process /x --process /p ID", Some(("/p", 6))),
            ("--root /r exec -e A=B --env C=D --cap CAP_KILL -u 1 -d ID sh -c create --process /x", None),
            ("--root /r exec -t -- ID sh --process /x", None),
        ] {
            let args = words(line);
            let found = scan(&args);
            assert_eq!((found.action, found.id, found.root), (Action::Exec, Some(OsStr::new("ID")), Some(OsStr::new("/r"))), "{line}");
            let expected = process.map(|(path, position)| ProcessFile { path: Path::new(path), position });
            assert_eq!(found.process, expected, "{line}");
        }
    }

    #[test]
    fn arguments_need_not_be_utf_8() {
        let raw = OsStr::from_bytes(b"/b\xff");
        let args = ["create", "--bundle"].map(OsString::from).into_iter().chain([raw.to_owned(), OsStr::from_bytes(b"id\xfe").to_owned()]);
        let args: Vec<_> = args.collect();
        assert_eq!((scan(&args).bundle, scan(&args).id), (Some(Path::new(raw)), Some(OsStr::from_bytes(b"id\xfe"))));
        let attached = [OsString::from("create"), OsStr::from_bytes(b"--bundle=/b\xff").to_owned()];
        assert_eq!(scan(&attached).bundle, Some(Path::new(raw)));
    }
}
