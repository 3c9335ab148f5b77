//! How the program speaks: one line, quotes that cannot harm a terminal or a log, and no phrase that an engine takes
//! for something else.
//!
//! Pure.

use std::fmt::Write as _;

/// The longest quotation of a stranger's text, bytes.
const LONGEST_QUOTE: usize = 128;

/// Phrases by which Docker picks another exit code than 125 (dockerd, `translateContainerdStartErr`: 127 and 126), each
/// with words that say the same.
const ENGINE_PHRASES: [(&str, &str); 5] = [
    ("no such file or directory", "not found"),
    ("executable file not found", "found no such program"),
    ("permission denied", "access refused"),
    ("is a directory", "is a folder"),
    ("not a directory", "not a folder"),
];

/// A stranger's text in quotes: control characters escaped, cut after 128 bytes.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let start = out.len();
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if harmless(c) => out.push(c),
            c => out.extend(c.escape_unicode()),
        }
        if out.len() > LONGEST_QUOTE {
            out.truncate(start);
            out.push('…');
            break;
        }
    }
    out.push('"');
    out
}

/// Makes a message fit to be shown by an engine: one line, nothing that steers a terminal, none of the phrases that
/// change Docker's exit code.
#[must_use]
pub fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for c in message.chars() {
        if harmless(c) {
            line.push(c);
        } else if c == '\n' {
            line.push_str("; ");
        } else {
            line.extend(c.escape_unicode());
        }
    }
    for (phrase, instead) in ENGINE_PHRASES {
        // ASCII lower case keeps every byte in its place, so positions agree.
        while let Some(at) = line.to_ascii_lowercase().find(phrase) {
            line.replace_range(at..at.saturating_add(phrase.len()), instead);
        }
    }
    line
}

/// `1 chip`, `2 chips`.
#[must_use]
pub fn count(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A JSON string literal; logrus' text form quotes alike.
#[must_use]
pub fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A container's name as people know it: Docker's 64 hex digits are cut to the 12 that `docker ps` shows.
#[must_use]
pub fn short_container(name: &str) -> String {
    let mut short = String::new();
    for c in name.chars().take(if is_made_up(name) { 12 } else { usize::MAX }) {
        if harmless(c) {
            short.push(c);
        } else {
            let _ = write!(short, "{}", c.escape_unicode());
        }
    }
    short
}

/// Is this an id that Docker, containerd's CRI plugin or Podman made up, 64 hex digits? Any other is its starter's own word.
#[must_use]
pub fn is_made_up(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A container as people know it: by its name where it has one, else by its id.
#[must_use]
pub fn called(name: Option<&str>, id: &str) -> String {
    short_container(name.unwrap_or(id))
}

/// Neither a control character nor one that reorders or hides text on a terminal.
fn harmless(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_cannot_steer_a_terminal() {
        assert_eq!(quoted("2"), "\"2\"");
        assert_eq!(quoted("a\"b\\"), r#""a\"b\\""#);
        assert_eq!(quoted("x\u{1b}[31m\n"), r#""x\u{1b}[31m\u{a}""#);
        assert_eq!(quoted("\u{202e}evil"), r#""\u{202e}evil""#);
    }

    #[test]
    fn a_quote_of_a_megabyte_is_cut_at_a_character() {
        let long = quoted(&"ä".repeat(1 << 19));
        assert!(long.len() <= 128 + "…\"".len(), "{}", long.len());
        assert!(long.ends_with("ä…\""));
    }

    #[test]
    fn no_message_changes_dockers_exit_code() {
        for said in [
            "reading /x: No such file or directory (os error 2)",
            "exec: executable file not found in $PATH",
            "PERMISSION DENIED and permission denied again",
            "/x is a directory; /y is Not A Directory",
        ] {
            let line = one_line(said).to_lowercase();
            for phrase in
                ["no such file or directory", "executable file not found", "permission denied", "is a directory", "not a directory"]
            {
                assert!(!line.contains(phrase), "{line}");
            }
        }
        assert_eq!(one_line("reading /x: No such file or directory (os error 2)"), "reading /x: not found (os error 2)");
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(one_line("a\nb\r\u{1b}c"), "a; b\\u{d}\\u{1b}c");
    }

    #[test]
    fn dockers_ids_are_cut_and_names_are_not() {
        let id = "3f2a9c1b7e44d06b3f8c745f1e9094807bc5794942913f54ff3128ccdd72b001";
        assert_eq!(short_container(id), "3f2a9c1b7e44");
        assert_eq!(short_container("train-1"), "train-1");
        assert_eq!(short_container("a\u{1b}b"), "a\\u{1b}b");
    }
}
