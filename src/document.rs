//! The text of a `config.json`, and how an edited one is written.
//!
//! Pure. Nothing is lost on the way: key order, the text of numbers, the layout. It does not know what the parts mean: that is
//! `peek`'s and `spec`'s.

use std::cell::OnceCell;
use std::hash::{BuildHasher, RandomState};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::PrettyFormatter;

/// A `config.json` as it was read.
#[derive(Debug)]
pub struct Document {
    text: Vec<u8>,
    aside: OnceCell<Aside>,
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

    /// The same with a random word in the place of a part of its text, most of it and nobody's business here, until
    /// [`Self::with`] puts that back.
    ///
    /// # Errors
    /// As [`Self::value`].
    pub fn value_without(&self, part: &str) -> Result<Value, serde_json::Error> {
        let Some([before, _, after]) = self.around(part) else { return self.value() };
        let word = format!("\"aside {:016x}\"", RandomState::new().hash_one(()));
        let text = [before, word.as_bytes(), after].concat();
        // Only the first is kept: there is one part that is worth it.
        let _ = self.aside.set(Aside { word, part: part.to_owned() });
        serde_json::from_slice(&text)
    }

    /// The text before a part of it, the part, and the text behind it; none where it is a part of something else.
    fn around(&self, part: &str) -> Option<[&[u8]; 3]> {
        let start = part.as_ptr().addr().checked_sub(self.text.as_ptr().addr())?;
        let (before, rest) = self.text.split_at_checked(start)?;
        let (found, after) = rest.split_at_checked(part.len())?;
        (found == part.as_bytes()).then_some([before, found, after])
    }

    /// The text of an edited document, in the layout of this one and with what was kept aside.
    ///
    /// # Errors
    /// Never in practice: a value is always JSON.
    pub fn with(&self, edited: &Value) -> Result<Vec<u8>, serde_json::Error> {
        let text = laid_out(edited, &self.text)?;
        let Some(Aside { word, part }) = self.aside.get() else { return Ok(text.into_bytes()) };
        let Some((before, after)) = text.split_once(word) else { return Ok(text.into_bytes()) };
        Ok([before, part, after].concat().into_bytes())
    }
}

/// A part that is not read.
#[derive(Debug)]
struct Aside {
    /// What stands for it, as JSON: random, so that no document can hold it.
    word: String,
    /// Its text.
    part: String,
}

/// The document's text, indented as the old one was: engines write one line, `runc spec` writes tabs.
fn laid_out(spec: &Value, like: &[u8]) -> Result<String, serde_json::Error> {
    let second_line = like.splitn(2, |byte| *byte == b'\n').nth(1);
    let indent = second_line.and_then(|line| line.split(|byte| !matches!(byte, b' ' | b'\t')).next());
    let mut text = match indent.filter(|indent| !indent.is_empty()) {
        Some(indent) => {
            let mut text = Vec::new();
            spec.serialize(&mut serde_json::Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(indent)))?;
            // serde_json writes UTF-8 only.
            String::from_utf8(text).map_err(serde::ser::Error::custom)?
        }
        None => serde_json::to_string(spec)?,
    };
    if like.ends_with(b"\n") {
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_stays_as_it_was() {
        for text in ["{\"a\":1,\"b\":[]}", "{\"a\":1}\n", "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}\n", "{\n  \"a\": 1\n}"] {
            let document = Document::new(text.into());
            assert_eq!(document.with(&document.value().unwrap()).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn what_was_kept_aside_comes_back_as_it_was() {
        let text = r#"{"a":1,"linux":{"seccomp":{"n":1e3,"x":[1, 2]},"z":0},"b":"aside 0000000000000000"}"#;
        let document = Document::new(text.into());
        let (start, end) = (text.find(r#"{"n""#).unwrap(), text.find(r#","z""#).unwrap());
        let part = std::str::from_utf8(&document.text()[start..end]).unwrap();
        let mut value = document.value_without(part).unwrap();
        assert!(!value.to_string().contains("1e3"), "kept aside");
        value["hostname"] = "h".into();
        let expected = text.strip_suffix('}').unwrap().to_owned() + r#","hostname":"h"}"#;
        assert_eq!(String::from_utf8(document.with(&value).unwrap()).unwrap(), expected);
    }

    #[test]
    fn what_is_no_part_of_the_text_is_not_kept_aside() {
        let document = Document::new(br#"{"a":[1, 2]}"#.to_vec());
        for part in ["[1, 2]".to_owned(), String::new()] {
            assert_eq!(document.value_without(&part).unwrap().to_string(), r#"{"a":[1,2]}"#);
        }
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let document = Document::new(br#"{"a":1,"b":2,"a":3}"#.to_vec());
        assert_eq!(document.value().unwrap().to_string(), r#"{"a":3,"b":2}"#);
    }
}
