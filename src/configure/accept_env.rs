//! `accept-env = false` in our own settings, for as long as an engine has the runtime as its default.
//!
//! Any image can set `AWS_NEURON_VISIBLE_DEVICES`; where every container comes this way, any image could so take chips. The line says
//! for which engines it stands, so that the last of them takes it out.

use anyhow::Result;
use toml_edit::{DocumentMut, Item, Value};

use super::{Edit, Role, State, tables};

const KEY: [&str; 1] = ["accept-env"];
/// What stands behind the value, before the engines.
const NOTE: &str = " # an image could ask; set by neuron-ctk configure --default for ";

/// The settings.
#[derive(Debug)]
pub struct AcceptEnv<'a> {
    /// The engine that is configured.
    pub engine: &'a str,
}

impl Edit for AcceptEnv<'_> {
    fn state(&self, text: &str) -> Result<State> {
        // The copy beside the file stays until the last engine has gone.
        Ok(if engines(&tables::parse(text)?).is_empty() { State::Absent } else { State::Ours })
    }

    fn put_in(&self, text: &str, _: Role) -> Result<String> {
        let mut document = tables::parse(text)?;
        let mut engines = engines(&document);
        let set_by_hand = engines.is_empty() && tables::get(&document, &KEY).and_then(Item::as_bool) == Some(false);
        if set_by_hand || engines.iter().any(|engine| engine == self.engine) {
            return Ok(text.to_owned());
        }
        engines.push(self.engine.to_owned());
        write(&mut document, &engines)?;
        Ok(document.to_string())
    }

    fn take_out(&self, text: &str, before: Option<&str>) -> Result<String> {
        let mut document = tables::parse(text)?;
        let mut engines = engines(&document);
        if !engines.iter().any(|engine| engine == self.engine) {
            return Ok(text.to_owned());
        }
        engines.retain(|engine| engine != self.engine);
        if engines.is_empty() {
            let before = before.map(tables::parse).transpose()?;
            tables::back(&mut document, &KEY, before.as_ref());
        } else {
            write(&mut document, &engines)?;
        }
        Ok(document.to_string())
    }
}

fn engines(document: &DocumentMut) -> Vec<String> {
    let suffix = tables::get(document, &KEY).and_then(Item::as_value).and_then(|value| value.decor().suffix()?.as_str());
    let listed = suffix.and_then(|suffix| suffix.strip_prefix(NOTE)).unwrap_or_default();
    listed.split(", ").map(str::trim).filter(|engine| !engine.is_empty()).map(str::to_owned).collect()
}

fn write(document: &mut DocumentMut, engines: &[String]) -> Result<()> {
    // The old value's own remark would be taken for part of the note.
    if let Some(old) = document.as_table_mut().get_mut(KEY[0]).and_then(Item::as_value_mut) {
        *old = Value::from(true);
    }
    tables::put(document, &KEY, Value::from(false))?;
    if let Some(value) = document.as_table_mut().get_mut(KEY[0]).and_then(Item::as_value_mut) {
        value.decor_mut().set_prefix(" ");
        value.decor_mut().set_suffix(format!("{NOTE}{}", engines.join(", ")));
    }
    Ok(())
}
