//! The text of a `config.json`, and how an edited one is written.
//!
//! Pure. Nothing is lost on the way: key order, the text of numbers, the layout. It does not know what the parts mean: that is
//! `peek`'s and `spec`'s.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::ser::PrettyFormatter;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A `config.json` as it was read.
#[derive(Debug)]
pub struct Document {
    text: Vec<u8>,
}

impl Document {
    /// The document of this text.
    #[must_use]
    pub fn new(text: Vec<u8>) -> Self {
        Self { text }
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

    /// The same, but the seccomp profile, most of the text and nobody's business here, is left as it is.
    ///
    /// # Errors
    /// Not a JSON object of which `linux` is one.
    pub fn tree(&self) -> Result<Tree<'_>, serde_json::Error> {
        let mut profile = None;
        // Looked through once for what is not UTF-8, not string by string.
        let text = str::from_utf8(&self.text).map_err(Error::custom)?;
        let mut json = serde_json::Deserializer::from_str(text);
        let spec = Branch { profile: &mut profile, linux: false }.deserialize(&mut json)?;
        json.end()?;
        Ok(Tree { spec, profile })
    }

    /// The text of an edited document, in the layout of this one: engines write one line, `runc spec` writes tabs.
    ///
    /// # Errors
    /// Never in practice: a tree is always JSON.
    pub fn with(&self, edited: &Tree<'_>) -> Result<Vec<u8>, serde_json::Error> {
        let second_line = self.text.splitn(2, |byte| *byte == b'\n').nth(1);
        let indent = second_line.and_then(|line| line.split(|byte| !matches!(byte, b' ' | b'\t')).next());
        let mut text = Vec::with_capacity(self.text.len().saturating_mul(2));
        match indent.filter(|indent| !indent.is_empty()) {
            Some(indent) => edited.serialize(&mut serde_json::Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(indent)))?,
            None => edited.serialize(&mut serde_json::Serializer::new(&mut text))?,
        }
        if self.text.ends_with(b"\n") {
            text.push(b'\n');
        }
        Ok(text)
    }
}

/// The part at a JSON pointer none of whose names bears a `~`, such as all names of the runtime specification. (serde_json's `pointer`
/// copies each name, to look for them.)
#[must_use]
pub fn part<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(value, |value, name| value.get(name))
}

/// As [`part`].
pub fn part_mut<'a>(value: &'a mut Value, pointer: &str) -> Option<&'a mut Value> {
    pointer.split('/').skip(1).try_fold(value, |value, name| value.get_mut(name))
}

/// A document taken apart, all but its seccomp profile.
#[derive(Debug)]
pub struct Tree<'a> {
    /// The document; where it has a profile, that is null here.
    pub spec: Value,
    profile: Option<&'a RawValue>,
}

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Part { value: &self.spec, profile: self.profile, path: &["linux", "seccomp"] }.serialize(serializer)
    }
}

/// A part of a tree, and the path from there to the profile.
struct Part<'a> {
    value: &'a Value,
    profile: Option<&'a RawValue>,
    path: &'static [&'static str],
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.profile, self.path, self.value) {
            (Some(profile), [], Value::Null) => profile.serialize(serializer),
            (Some(profile), [name, path @ ..], Value::Object(map)) => {
                let part = |(key, value)| (key, Part { value, profile: (key == name).then_some(profile), path });
                serializer.collect_map(map.iter().map(part))
            }
            (_, _, value) => value.serialize(serializer),
        }
    }
}

/// Reads the document, or its `linux`, where the profile is.
struct Branch<'p, 'a> {
    profile: &'p mut Option<&'a RawValue>,
    linux: bool,
}

impl<'a> DeserializeSeed<'a> for Branch<'_, 'a> {
    type Value = Value;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Branch<'_, 'a> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = match (self.linux, &*key) {
                (false, "linux") => {
                    // Of two equal keys the last counts.
                    *self.profile = None;
                    entries.next_value_seed(Branch { profile: &mut *self.profile, linux: true })?
                }
                (true, "seccomp") => {
                    *self.profile = Some(entries.next_value()?);
                    Value::Null
                }
                _ => entries.next_value()?,
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_stays_as_it_was() {
        for text in ["{\"a\":1,\"b\":[]}", "{\"a\":1}\n", "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}\n", "{\n  \"a\": 1\n}"] {
            let document = Document::new(text.into());
            assert_eq!(document.with(&document.tree().unwrap()).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn the_profile_stays_as_it_was_and_nothing_else_is_taken_for_it() {
        let text = r#"{"a":1,"seccomp":[1,2],"linux":{"seccomp":{"n":1e3,"x":[1, 2]},"z":{"seccomp":null}},"b":"c"}"#;
        let document = Document::new(text.into());
        let mut tree = document.tree().unwrap();
        assert_eq!(tree.spec["linux"]["seccomp"], Value::Null);
        tree.spec["hostname"] = "h".into();
        let expected = text.strip_suffix('}').unwrap().to_owned() + r#","hostname":"h"}"#;
        assert_eq!(String::from_utf8(document.with(&tree).unwrap()).unwrap(), expected);
    }

    #[test]
    fn a_profile_that_is_null_or_not_there_stays_so() {
        for text in [r#"{"linux":{"seccomp":null}}"#, r#"{"linux":{}}"#, r#"{"linux":null}"#, "{}"] {
            let document = Document::new(text.into());
            assert_eq!(document.with(&document.tree().unwrap()).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn of_two_equal_keys_the_last_ones_profile_counts() {
        for (text, said) in [
            (r#"{"linux":{"seccomp":{"a":1}},"linux":{"x":2}}"#, r#"{"linux":{"x":2}}"#),
            (r#"{"linux":{"x":2},"linux":{"seccomp":{"a":1},"seccomp":{"b":1}}}"#, r#"{"linux":{"seccomp":{"b":1}}}"#),
        ] {
            let document = Document::new(text.into());
            assert_eq!(document.with(&document.tree().unwrap()).unwrap(), said.as_bytes());
        }
    }

    #[test]
    fn what_is_no_object_is_no_tree() {
        for text in ["", "[]", "{", "{}x", r#"{"linux":[]}"#, r#"{"linux":{"seccomp":{"a"}}}"#] {
            assert!(Document::new(text.into()).tree().is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_of_two_equal_keys_counts() {
        let document = Document::new(br#"{"a":1,"b":2,"a":3}"#.to_vec());
        assert_eq!(document.value().unwrap().to_string(), r#"{"a":3,"b":2}"#);
        assert_eq!(document.tree().unwrap().spec.to_string(), r#"{"a":3,"b":2}"#);
    }
}
