//! Edits of a JSON text that leave everything else as it is: order, layout, the text of numbers.
//!
//! `serde_json` lends each value's own text, so where it stands is known; a property is then cut out or put in by hand, laid out as
//! its neighbours are.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use anyhow::{Context, Result, bail};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::ser::PrettyFormatter;
use serde_json::value::RawValue;

use crate::words::quoted;

/// An object in a text.
struct Object<'a> {
    text: &'a str,
    /// From brace to brace.
    range: Range<usize>,
    properties: Vec<Property>,
}

struct Property {
    name: String,
    value: Range<usize>,
}

/// The text of the value at a path, none where it or what leads to it is missing.
///
/// # Errors
/// The text is no JSON object, or something on the way is neither an object nor null.
pub(super) fn get<'a>(text: &'a str, path: &[&str]) -> Result<Option<&'a str>> {
    Ok(find(text, path)?.map(|range| &text[range]))
}

/// The text with this value at a path; objects that lead to it are made.
///
/// # Errors
/// As [`get`].
pub(super) fn set(text: &str, path: &[&str], value: &Value) -> Result<String> {
    if text.trim().is_empty() {
        return set("{}\n", path, value);
    }
    let (name, folder) = path.split_last().context("a path has a last part")?;
    if let Some(range) = find(text, path)? {
        return Ok(spliced(text, range.clone(), &laid_out(text, range.start, value)?));
    }
    match find(text, folder)?.filter(|range| &text[range.clone()] != "null") {
        Some(range) => Object::read(text, range, folder)?.with(name, value),
        None => {
            let mut object = serde_json::Map::new();
            object.insert((*name).to_owned(), value.clone());
            set(text, folder, &object.into())
        }
    }
}

/// The text without the property at a path.
///
/// # Errors
/// As [`get`].
pub(super) fn remove(text: &str, path: &[&str]) -> Result<String> {
    let (name, folder) = path.split_last().context("a path has a last part")?;
    match find(text, folder)?.filter(|range| &text[range.clone()] != "null") {
        Some(range) => Ok(Object::read(text, range, folder)?.without(name)),
        None => Ok(text.to_owned()),
    }
}

fn find(text: &str, path: &[&str]) -> Result<Option<Range<usize>>> {
    let whole: &RawValue = serde_json::from_str(text)?;
    let mut range = range_in(text, whole.get());
    for (depth, name) in path.iter().enumerate() {
        if depth > 0 && &text[range.clone()] == "null" {
            return Ok(None);
        }
        let object = Object::read(text, range, &path[..depth])?;
        match object.properties.into_iter().find(|property| property.name == *name) {
            Some(property) => range = property.value,
            None => return Ok(None),
        }
    }
    Ok(Some(range))
}

impl<'a> Object<'a> {
    fn read(text: &'a str, range: Range<usize>, path: &[&str]) -> Result<Self> {
        let whose = || path.last().map_or("the document".to_owned(), |name| quoted(name));
        if !text[range.clone()].starts_with('{') {
            bail!("{} is no JSON object", whose());
        }
        let pairs: Pairs<'_> = serde_json::from_str(&text[range.clone()])?;
        let mut properties: Vec<Property> = Vec::with_capacity(pairs.0.len());
        for (name, value) in pairs.0 {
            // Readers differ in which of the two counts.
            if properties.iter().any(|earlier| earlier.name == name) {
                bail!("{} has {} twice: take one out", whose(), quoted(&name));
            }
            properties.push(Property { name: name.into_owned(), value: range_in(text, value.get()) });
        }
        Ok(Self { text, range, properties })
    }

    /// What stands before a property's value: comma, blanks, its name, colon.
    fn lead(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(self.range.start + 1, |before| self.properties[before].value.end);
        start..self.properties[index].value.start
    }

    fn with(&self, name: &str, value: &Value) -> Result<String> {
        let name = Value::from(name).to_string();
        let Some(last) = self.properties.last() else {
            let Layout { newline, unit } = Layout::of(self.text);
            let Some(unit) = unit else {
                return Ok(spliced(self.text, self.range.clone(), &format!("{{{name}:{value}}}")));
            };
            let outer = indent(self.text, self.range.start);
            let value = laid_out_at(self.text, &format!("{outer}{unit}"), value)?;
            let body = format!("{{{newline}{outer}{unit}{name}: {value}{newline}{outer}}}");
            return Ok(spliced(self.text, self.range.clone(), &body));
        };
        let lead = &self.text[self.lead(self.properties.len() - 1)];
        let (Some(first_quote), Some(last_quote)) = (lead.find('"'), lead.rfind('"')) else { bail!("a property has a name") };
        let blanks = lead[..first_quote].trim_start_matches([',', ' ', '\t']);
        let blanks = if blanks.is_empty() { lead[..first_quote].rsplit(',').next().unwrap_or_default() } else { blanks };
        // An empty line before the last property is not repeated.
        let blanks = blanks.rfind('\n').map_or(blanks.to_owned(), |at| format!("{}{}", Layout::of(self.text).newline, &blanks[at + 1..]));
        let value = laid_out(self.text, last.value.start, value)?;
        let colon = &lead[last_quote + 1..];
        Ok(spliced(self.text, last.value.end..last.value.end, &format!(",{blanks}{name}{colon}{value}")))
    }

    fn without(&self, name: &str) -> String {
        let Some(index) = self.properties.iter().position(|property| property.name == name) else { return self.text.to_owned() };
        let own = self.properties[index].value.end;
        let range = match (index, self.properties.len()) {
            (0, 1) => self.range.start + 1..self.range.end - 1,
            (0, _) => {
                let (first, second) = (self.lead(0), self.lead(1));
                let name_at = |lead: &Range<usize>| lead.start + self.text[lead.clone()].find('"').unwrap_or(0);
                name_at(&first)..name_at(&second)
            }
            _ => self.lead(index).start..own,
        };
        spliced(self.text, range, "")
    }
}

/// The pairs of an object in their order, each value as its own text.
struct Pairs<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    pairs.push((Cow::Owned(name), value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Where a part of a text stands in it.
fn range_in(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
    start..start + part.len()
}

fn spliced(text: &str, range: Range<usize>, new: &str) -> String {
    [&text[..range.start], new, &text[range.end..]].concat()
}

/// How a text is laid out.
struct Layout<'a> {
    newline: &'static str,
    /// One step of indentation; none where the text is one line.
    unit: Option<&'a str>,
}

impl<'a> Layout<'a> {
    fn of(text: &'a str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let body = text.trim();
        let unit = match body.split_once('\n') {
            // An object without anything in it says nothing.
            None => body.strip_prefix('{').is_some_and(|rest| rest.trim_start() == "}").then_some("  "),
            Some((_, rest)) => {
                let line = rest.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                let blanks = &line[..line.len() - line.trim_start().len()];
                Some(if blanks.is_empty() || line.trim_start() == "}" { "  " } else { blanks })
            }
        };
        Self { newline, unit }
    }
}

/// The blanks that begin the line of this place.
fn indent(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let rest = &text[line..];
    &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
}

fn laid_out(text: &str, at: usize, value: &Value) -> Result<String> {
    laid_out_at(text, indent(text, at), value)
}

/// A value as text: over several lines where the document is, from the second on with this indentation.
fn laid_out_at(text: &str, indent: &str, value: &Value) -> Result<String> {
    let Layout { newline, unit } = Layout::of(text);
    let Some(unit) = unit else { return Ok(value.to_string()) };
    let mut out = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(unit.as_bytes())))?;
    let out = String::from_utf8(out)?;
    Ok(out.lines().collect::<Vec<_>>().join(&format!("{newline}{indent}")))
}
