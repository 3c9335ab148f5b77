//! A configuration file of somebody else's: read, replaced whole, given back.
//!
//! Written under another name in the same folder and renamed, with the owner and mode of the old one; a symbolic link stays a link and
//! what it points to is replaced. The copy of a changed file lies beside it as `NAME.before-neuron`. A folder that had to be made is
//! marked by a file in it, so that it goes when nothing else is left there; one that bears this program's name needs no mark.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::libc::O_NONBLOCK;

use crate::configure::{Change, Copy};

/// What is added to the name of a file for its copy.
const COPY_SUFFIX: &str = ".before-neuron";
/// The mark in a folder that was made.
const MARK: &str = ".made-by-neuron-ctk";
const MARK_TEXT: &str = "# neuron-ctk configure made this folder; with --remove it takes it away when nothing else is in it.\n";
/// The most that is read of a file.
const LONGEST: u64 = 16 << 20;

/// A file that may not be there.
#[derive(Debug)]
pub struct TextFile {
    /// As it was asked for.
    pub path: PathBuf,
    /// What that leads to.
    target: PathBuf,
    read: Option<(String, fs::Metadata)>,
}

impl TextFile {
    /// Reads a file, if it is there.
    ///
    /// # Errors
    /// It cannot be read, or is no text file.
    pub fn read(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
        let target = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => {
                fs::canonicalize(&path).with_context(|| format!("{} is a link that leads nowhere", path.display()))?
            }
            _ => path.clone(),
        };
        let read = text(&target).with_context(|| path.display().to_string())?;
        Ok(Self { path, target, read })
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.read.as_ref().map(|(text, _)| text.as_str())
    }

    /// Where its copy lies.
    #[must_use]
    pub fn copy_path(&self) -> PathBuf {
        let mut name = self.target.file_name().unwrap_or_default().to_owned();
        name.push(COPY_SUFFIX);
        let folder = self.target.parent().unwrap_or(Path::new("/"));
        // CRI-O reads every file of its crio.conf.d, whatever its name (pkg/config, `UpdateFromPath`).
        let read_whole = folder.extension().is_some_and(|extension| extension == "d");
        folder.parent().filter(|_| read_whole).unwrap_or(folder).join(name)
    }

    /// The text of its copy, if there is one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn copy(&self) -> Result<Option<String>> {
        let path = self.copy_path();
        Ok(text(&path).with_context(|| path.display().to_string())?.map(|(text, _)| text))
    }

    /// Makes the change.
    ///
    /// # Errors
    /// The file is as it was then.
    pub fn write(&self, change: &Change) -> Result<()> {
        let copy = self.copy_path();
        if let (Copy::Make, Some(text)) = (change.copy, self.text()) {
            self.put(&copy, text)?;
        }
        if change.after.as_deref() != self.text() {
            match &change.after {
                Some(text) => {
                    make_folder(self.folder())?;
                    self.put(&self.target, text)?;
                }
                None => gone(&self.target)?,
            }
        }
        if change.copy == Copy::Go {
            gone(&copy)?;
        }
        if change.after.is_none() {
            remove_made(self.folder());
        }
        Ok(())
    }

    fn folder(&self) -> &Path {
        self.target.parent().unwrap_or(Path::new("/"))
    }

    fn put(&self, path: &Path, text: &str) -> Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = path.with_file_name(format!(".{name}.{:016x}", RandomState::new().hash_one(std::process::id())));
        let written = self.create(&new, text).and_then(|()| fs::rename(&new, path));
        written.with_context(|| {
            let _ = fs::remove_file(&new);
            format!("{} cannot be written", path.display())
        })
    }

    fn create(&self, path: &Path, text: &str) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        let mut mode = 0o644;
        if let Some((_, old)) = &self.read {
            let new = file.metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
            mode = old.mode() & 0o7777;
        }
        file.set_permissions(PermissionsExt::from_mode(mode))?;
        file.sync_all()
    }
}

fn text(path: &Path) -> Result<Option<(String, fs::Metadata)>> {
    // Not to hang on a fifo.
    let mut file: File = match OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    ensure!(metadata.is_file(), "is no regular file");
    ensure!(metadata.len() <= LONGEST, "is longer than {} MiB", LONGEST >> 20);
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(Some((text, metadata)))
}

fn gone(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).with_context(|| format!("{} cannot be removed", path.display())),
        _ => Ok(()),
    }
}

/// Does this folder bear our name, or one above it?
fn bears_our_name(folder: &Path) -> bool {
    folder.components().any(|part| part.as_os_str() == crate::configure::WRAPPER)
}

fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent() {
        make_folder(above)?;
    }
    let said = || format!("{} cannot be made", folder.display());
    fs::DirBuilder::new().mode(0o755).create(folder).with_context(said)?;
    // Whatever the umask.
    fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).with_context(said)?;
    if bears_our_name(folder) {
        return Ok(());
    }
    fs::write(folder.join(MARK), MARK_TEXT).with_context(said)
}

/// Takes away folders that were made and have nothing in them any more, this one and those above it.
fn remove_made(folder: &Path) {
    let mark = folder.join(MARK);
    let others = || fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| entry.file_name() != MARK);
    if !(bears_our_name(folder) || mark.is_file()) || others() {
        return;
    }
    let _ = fs::remove_file(&mark);
    if fs::remove_dir(folder).is_ok()
        && let Some(above) = folder.parent()
    {
        remove_made(above);
    }
}
