//! A bundle's `config.json`: find, read, replace.
//!
//! Reads one file and replaces it whole by rename, with the same owner and mode. It does not look inside: that is `peek`'s and
//! `spec`'s.

use std::cell::OnceCell;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::libc::O_NONBLOCK;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::PrettyFormatter;
use serde_json::value::RawValue;

use crate::kernel;

/// The file that tells a low-level runtime what to run.
#[derive(Debug)]
pub struct Bundle {
    /// The bundle's folder.
    pub folder: PathBuf,
    path: PathBuf,
    text: Vec<u8>,
    metadata: fs::Metadata,
    aside: OnceCell<Option<Aside>>,
}

impl Bundle {
    /// Reads the `config.json` (or, with crun's `--config`, another file) of a bundle.
    ///
    /// # Errors
    /// It is not there, no regular file, or cannot be read.
    pub fn read(folder: &Path, name: Option<&Path>) -> Result<Self> {
        let path = folder.join(name.unwrap_or(Path::new("config.json")));
        let said = || format!("{}", path.display());
        // Not to hang on a fifo.
        let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&path).with_context(said)?;
        let metadata = file.metadata().with_context(said)?;
        if !metadata.is_file() {
            bail!("{} is no regular file", path.display());
        }
        let text = kernel::rest(file, metadata.len()).with_context(said)?;
        Ok(Self { folder: folder.to_owned(), path, text, metadata, aside: OnceCell::new() })
    }

    /// The text as it was read.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The document, with each key once, the last one counting, as Go reads it.
    ///
    /// # Errors
    /// Not JSON.
    pub fn value(&self) -> Result<Value> {
        self.parse(&self.text)
    }

    /// The same without its seccomp profile, most of the text and nobody's business here: a random word stands for it until
    /// [`Self::replace`] puts it back.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn value_to_edit(&self) -> Result<Value> {
        match self.aside() {
            Some(Aside { word, seccomp }) => {
                self.parse(&[&self.text[..seccomp.start], word.as_bytes(), &self.text[seccomp.end..]].concat())
            }
            None => self.value(),
        }
    }

    fn parse(&self, text: &[u8]) -> Result<Value> {
        serde_json::from_slice(text).with_context(|| format!("{} is not JSON", self.path.display()))
    }

    fn aside(&self) -> Option<&Aside> {
        let found = self.aside.get_or_init(|| {
            let word = format!("\"seccomp {:016x}\"", RandomState::new().hash_one(std::process::id()));
            seccomp(&self.text).map(|seccomp| Aside { word, seccomp })
        });
        found.as_ref()
    }

    /// A document's text with the seccomp profile back in its place, in pieces.
    fn with_seccomp<'a>(&'a self, text: &'a str) -> [&'a [u8]; 3] {
        let whole = [text.as_bytes(), &[], &[]];
        let Some(Some(Aside { word, seccomp })) = self.aside.get() else { return whole };
        let Some((before, after)) = text.split_once(word) else { return whole };
        [before.as_bytes(), &self.text[seccomp.clone()], after.as_bytes()]
    }

    /// Puts another document in its place, in the layout of the old one.
    ///
    /// # Errors
    /// The old one stays then.
    pub fn replace(&self, spec: &Value, unique: &str) -> Result<()> {
        let said = || format!("{} cannot be replaced", self.path.display());
        // A rename would put a file where the link is, and leave what it points to.
        if fs::symlink_metadata(&self.path).with_context(said)?.is_symlink() {
            bail!("{} is a symbolic link: put the file itself into the bundle", self.path.display());
        }
        let new = self.path.with_file_name(format!(".config.json.{unique}"));
        let written = self.write(&new, spec).and_then(|()| fs::rename(&new, &self.path));
        written.with_context(|| {
            // Nothing is lost: the old file is untouched.
            let _ = fs::remove_file(&new);
            said()
        })
    }

    fn write(&self, path: &Path, spec: &Value) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        for piece in self.with_seccomp(&laid_out(spec, &self.text)?) {
            file.write_all(piece)?;
        }
        self.same_owner(&file)?;
        file.set_permissions(PermissionsExt::from_mode(self.metadata.mode() & 0o7777))
    }

    fn same_owner(&self, file: &File) -> std::io::Result<()> {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) == (self.metadata.uid(), self.metadata.gid()) {
            return Ok(());
        }
        fchown(file, Some(self.metadata.uid()), Some(self.metadata.gid()))
    }
}

/// The seccomp profile of a document.
#[derive(Debug)]
struct Aside {
    /// What stands for it, as JSON: random, so that no document can hold it.
    word: String,
    /// Where it is in the text.
    seccomp: Range<usize>,
}

/// Where the seccomp profile of a document is.
fn seccomp(text: &[u8]) -> Option<Range<usize>> {
    #[derive(Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        linux: Linux<'a>,
    }
    #[derive(Deserialize)]
    struct Linux<'a> {
        #[serde(borrow)]
        seccomp: &'a RawValue,
    }
    // A document that is not of this shape is read whole.
    let seccomp = serde_json::from_slice::<Document<'_>>(text).ok()?.linux.seccomp.get();
    let start = seccomp.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(start..start + seccomp.len())
}

/// The document's text, indented as the old one was: engines write one line, `runc spec` writes tabs.
fn laid_out(spec: &Value, like: &[u8]) -> Result<String, serde_json::Error> {
    let indent = like.iter().position(|byte| *byte == b'\n').map(|end| {
        let rest = &like[end + 1..];
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        &rest[..blanks]
    });
    let mut text = Vec::with_capacity(8192);
    match indent.filter(|indent| !indent.is_empty()) {
        Some(indent) => spec.serialize(&mut serde_json::Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(indent)))?,
        None => serde_json::to_writer(&mut text, spec)?,
    }
    if like.ends_with(b"\n") {
        text.push(b'\n');
    }
    // serde_json writes UTF-8 only.
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(text: &str) -> (tempfile::TempDir, Bundle) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), text).unwrap();
        let bundle = Bundle::read(folder.path(), None).unwrap();
        (folder, bundle)
    }

    #[test]
    fn the_layout_stays_as_it_was() {
        for text in ["{\"a\":1,\"b\":[]}", "{\"a\":1}\n", "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}\n", "{\n  \"a\": 1\n}"] {
            let (folder, bundle) = bundle(text);
            bundle.replace(&bundle.value_to_edit().unwrap(), "x").unwrap();
            assert_eq!(fs::read_to_string(folder.path().join("config.json")).unwrap(), text);
        }
    }

    #[test]
    fn the_seccomp_profile_comes_back_as_it_was() {
        for text in [
            r#"{"a":1,"linux":{"seccomp":{"n":1e3,"x":[1, 2]},"z":0},"b":2}"#,
            r#"{"linux":{"seccomp":null}}"#,
            r#"{"linux":{"seccomp":[]},"process":{"args":["seccomp 0000000000000000"]}}"#,
            r#"{"linux":{}}"#,
            r#"{"linux":null}"#,
        ] {
            let (folder, bundle) = bundle(text);
            let mut value = bundle.value_to_edit().unwrap();
            assert!(!value.to_string().contains("1e3"), "kept aside");
            value["hostname"] = "h".into();
            bundle.replace(&value, "x").unwrap();
            let expected = text.strip_suffix('}').unwrap().to_owned() + r#","hostname":"h"}"#;
            assert_eq!(fs::read_to_string(folder.path().join("config.json")).unwrap(), expected);
        }
    }

    #[test]
    fn mode_stays_and_nothing_else_is_left() {
        let (folder, _) = bundle("{}");
        let path = folder.path().join("config.json");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        Bundle::read(folder.path(), None).unwrap().replace(&json!({"x": 1}), "x").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"x\":1}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let (_folder, bundle) = bundle(r#"{"a":1,"b":2,"a":3}"#);
        assert_eq!(bundle.value().unwrap().to_string(), r#"{"a":3,"b":2}"#);
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Bundle::read(folder.path(), None).is_err());
        let fifo = folder.path().join("config.json");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Bundle::read(folder.path(), None).unwrap_err().to_string().contains("no regular file"));
    }

    #[test]
    fn a_link_stays_a_link() {
        let (folder, _) = bundle("{}");
        let link = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(folder.path().join("config.json"), link.path().join("config.json")).unwrap();
        let bundle = Bundle::read(link.path(), None).unwrap();
        assert!(bundle.replace(&json!({}), "x").unwrap_err().to_string().contains("is a symbolic link"));
        assert!(fs::symlink_metadata(link.path().join("config.json")).unwrap().is_symlink());
    }
}
