//! A bundle's `config.json`: find, read, replace.
//!
//! Reads one file and replaces it whole by rename, with the same owner and mode. It does not look inside.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::libc::O_NONBLOCK;

use crate::document::{Document, Tree};
use crate::kernel;

/// The file that tells a low-level runtime what to run.
#[derive(Debug)]
pub struct Bundle {
    /// The bundle's folder.
    pub folder: PathBuf,
    /// What the file holds.
    pub document: Document,
    path: PathBuf,
    metadata: fs::Metadata,
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
        Ok(Self { folder: folder.to_owned(), document: Document::new(text), path, metadata })
    }

    /// Puts another document in its place, in the layout of the old one.
    ///
    /// # Errors
    /// The old one stays then.
    pub fn replace(&self, spec: &Tree<'_>, unique: &str) -> Result<()> {
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

    fn write(&self, path: &Path, spec: &Tree<'_>) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&self.document.with(spec)?)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(text: &str) -> (tempfile::TempDir, Bundle) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), text).unwrap();
        let bundle = Bundle::read(folder.path(), None).unwrap();
        (folder, bundle)
    }

    #[test]
    fn mode_stays_and_nothing_else_is_left() {
        let (folder, _) = bundle("{}");
        let path = folder.path().join("config.json");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let bundle = Bundle::read(folder.path(), None).unwrap();
        let mut tree = bundle.document.tree().unwrap();
        tree.spec["x"] = 1.into();
        bundle.replace(&tree, "x").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"x\":1}");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
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
        assert!(bundle.replace(&bundle.document.tree().unwrap(), "x").unwrap_err().to_string().contains("is a symbolic link"));
        assert!(fs::symlink_metadata(link.path().join("config.json")).unwrap().is_symlink());
    }
}
