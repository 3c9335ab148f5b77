//! What is written into the files of container engines, and how it is taken out again.
//!
//! Pure: text in, text out. Each engine's file is an [`Edit`]; what becomes of the file and of the copy that is left beside it is
//! decided here, once for all of them. The copy is the memory: where the file is still what was made of the copy, the copy comes
//! back byte for byte; where somebody has changed the file since, each thing of ours is set back to what the copy has in its place,
//! and their change stays. Where there is no copy there was no file.

pub mod accept_env;
pub mod containerd;
pub mod crio;
pub mod docker;
mod json;
pub mod podman;
mod tables;

use anyhow::Result;

/// What the runtime is called. The agent of ECS picks a runtime of this name (amazon-ecs-agent, agent/api/task/task.go).
pub const RUNTIME: &str = "neuron";
/// The installed name of the wrapper, by which a runtime is known as ours.
pub const WRAPPER: &str = "neuron-container-runtime";

/// How the runtime is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// One runtime among others.
    Extra,
    /// The one for containers that name none.
    Default,
}

/// What a file says of us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Absent,
    /// It has what this program puts in, this version's or another's.
    Ours,
    /// It calls something else by our name.
    Foreign(String),
}

/// A file of an engine, and what is ours in it.
pub trait Edit {
    /// What the file says of us.
    ///
    /// # Errors
    /// It does not parse: with line and column.
    fn state(&self, text: &str) -> Result<State>;

    /// The text with what is ours; put in twice is put in once.
    ///
    /// # Errors
    /// It does not parse, or has something in our place that cannot be replaced.
    fn put_in(&self, text: &str, role: Role) -> Result<String>;

    /// The text of such a file with each thing of ours as it was `before`, be that missing.
    ///
    /// # Errors
    /// It does not parse.
    fn take_out(&self, text: &str, before: Option<&str>) -> Result<String>;
}

/// What is to become of the copy beside a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// It stays as it is, be it there or not.
    Stay,
    /// It is made of the present text.
    Make,
    /// It goes.
    Go,
}

/// What is to become of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its text; none where the file goes, or is not to be.
    pub after: Option<String>,
    /// The copy beside it.
    pub copy: Copy,
    /// What stood under our name, in words.
    pub replaces: Option<String>,
}

/// What becomes of a file that is to have what is ours.
///
/// # Errors
/// As [`Edit::put_in`].
pub fn add(edit: &dyn Edit, text: Option<&str>, role: Role) -> Result<Change> {
    let Some(text) = text else {
        // A copy that lies there is of a file that somebody has removed since.
        return Ok(Change { after: Some(edit.put_in("", role)?), copy: Copy::Go, replaces: None });
    };
    let after = edit.put_in(text, role)?;
    let state = edit.state(text)?;
    let copy = if state == State::Ours || after == text { Copy::Stay } else { Copy::Make };
    let replaces = match state {
        State::Foreign(what) if after != text => Some(what),
        _ => None,
    };
    Ok(Change { after: Some(after), copy, replaces })
}

/// What becomes of a file that is to be as it was; `before` is the copy.
///
/// # Errors
/// As [`Edit::take_out`].
pub fn remove(edit: &dyn Edit, text: Option<&str>, before: Option<&str>) -> Result<Change> {
    let stays = |copy| Change { after: text.map(str::to_owned), copy, replaces: None };
    let Some(text) = text else { return Ok(stays(Copy::Stay)) };
    if edit.state(text)? != State::Ours {
        // A copy of something else may be all that is left of it.
        return Ok(stays(if before == Some(text) { Copy::Go } else { Copy::Stay }));
    }
    // A copy that does not parse made nothing.
    let made_of_it = |role| edit.put_in(before.unwrap_or_default(), role).is_ok_and(|made| made == text);
    if made_of_it(Role::Extra) || made_of_it(Role::Default) {
        return Ok(Change { after: before.map(str::to_owned), copy: Copy::Go, replaces: None });
    }
    let after = edit.take_out(text, before)?;
    let copy = if edit.state(&after)? == State::Ours { Copy::Stay } else { Copy::Go };
    let nothing_left = before.is_none() && matches!(after.trim(), "" | "{}");
    Ok(Change { after: (!nothing_left).then_some(after), copy, replaces: None })
}

/// Is this the path of our wrapper?
fn is_wrapper(path: &str) -> bool {
    path.rsplit('/').next() == Some(WRAPPER)
}

#[cfg(test)]
mod tests;
