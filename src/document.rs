//! The text of a `config.json`, and how an edited one is written.
//!
//! Pure. Nothing is lost on the way: key order, the text of numbers, the layout. It does not know what the parts mean: that is
//! `peek`'s and `spec`'s.

use std::cell::OnceCell;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::PrettyFormatter;
use serde_json::value::RawValue;

/// A `config.json` as it was read.
#[derive(Debug)]
pub struct Document {
    text: Vec<u8>,
    aside: OnceCell<Option<Aside>>,
}

impl Document {
    /// The document of this text.
    #[must_use]
    pub fn new(text: Vec<u8>) -> Self {
        Self { text, aside: OnceCell::new() }
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
    pub fn value(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.text)
    }

    /// The same without its seccomp profile, most of the text and nobody's business here: a random word stands for it until
    /// [`Self::with`] puts it back.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn value_to_edit(&self) -> Result<Value, serde_json::Error> {
        match self.aside() {
            Some(Aside { word, seccomp }) => {
                serde_json::from_slice(&[&self.text[..seccomp.start], word.as_bytes(), &self.text[seccomp.end..]].concat())
            }
            None => self.value(),
        }
    }

    fn aside(&self) -> Option<&Aside> {
        let found = self.aside.get_or_init(|| {
            let word = format!("\"seccomp {:016x}\"", RandomState::new().hash_one(()));
            seccomp(&self.text).map(|seccomp| Aside { word, seccomp })
        });
        found.as_ref()
    }

    /// The text of an edited document, in the layout of this one and with its seccomp profile.
    ///
    /// # Errors
    /// Never in practice: a value is always JSON.
    pub fn with(&self, edited: &Value) -> Result<Vec<u8>, serde_json::Error> {
        let text = laid_out(edited, &self.text)?;
        let Some(Some(Aside { word, seccomp })) = self.aside.get() else { return Ok(text.into_bytes()) };
        let Some((before, after)) = text.split_once(word) else { return Ok(text.into_bytes()) };
        Ok([before.as_bytes(), &self.text[seccomp.clone()], after.as_bytes()].concat())
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
    use super::*;

    #[test]
    fn the_layout_stays_as_it_was() {
        for text in ["{\"a\":1,\"b\":[]}", "{\"a\":1}\n", "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}\n", "{\n  \"a\": 1\n}"] {
            let document = Document::new(text.into());
            assert_eq!(document.with(&document.value_to_edit().unwrap()).unwrap(), text.as_bytes());
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
            let document = Document::new(text.into());
            let mut value = document.value_to_edit().unwrap();
            assert!(!value.to_string().contains(r#""n":1e3"#), "kept aside");
            value["hostname"] = "h".into();
            let expected = text.strip_suffix('}').unwrap().to_owned() + r#","hostname":"h"}"#;
            assert_eq!(String::from_utf8(document.with(&value).unwrap()).unwrap(), expected);
        }
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let document = Document::new(br#"{"a":1,"b":2,"a":3}"#.to_vec());
        assert_eq!(document.value().unwrap().to_string(), r#"{"a":3,"b":2}"#);
    }
}
