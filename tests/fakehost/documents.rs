//! The documents: `docs/troubleshooting.md` has an entry for each error sentence of the program, and none for what it does not say; links lead
//! somewhere; commands are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What stands before a sentence in the sources, and whether it follows at once.
const MARKS: [(&str, bool); 13] = [
    ("#[error(", true),
    ("bail!(", true),
    ("anyhow!(", true),
    (".context(", true),
    ("with_context(||", false),
    ("custom(format!(", true),
    ("Err(format!(", true),
    ("Missing(format!(", true),
    ("Unhealthy(", true),
    ("Unhealthy(format!(", true),
    ("said = ", true),
    ("said = || format!(", true),
    ("ensure!(", false),
];

/// The sentences of a source file, what is filled in as an ellipsis.
fn sentences(source: &str, found: &mut BTreeSet<String>) {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    for (mark, at_once) in MARKS {
        for (at, _) in source.match_indices(mark) {
            let behind = &source[at + mark.len()..];
            let start = if at_once { behind.find(|c: char| !c.is_whitespace()) } else { literal_in_argument(behind, mark) };
            let Some(text) = start.and_then(|start| behind[start..].strip_prefix('"')) else { continue };
            let sentence = filled(&literal(text));
            if sentence.chars().filter(|c| c.is_alphabetic()).count() > 5 {
                found.insert(sentence);
            }
        }
    }
}

/// Where the sentence of a macro or closure begins: behind the condition, or in `format!`.
fn literal_in_argument(behind: &str, mark: &str) -> Option<usize> {
    if mark == "ensure!(" {
        let argument = &behind[..behind.find("\");").unwrap_or(behind.len())];
        let (comma, _) = argument.match_indices(',').find(|(comma, _)| argument[comma + 1..].trim_start().starts_with('"'))?;
        return Some(comma + 1 + argument[comma + 1..].find('"')?);
    }
    let closure = behind.trim_start();
    let closure = closure.strip_prefix('{').unwrap_or(closure).trim_start();
    let format = closure.strip_prefix("format!(").map(str::trim_start);
    format.filter(|rest| rest.starts_with('"')).map(|rest| behind.len() - rest.len())
}

/// A string literal's text, as the compiler reads it.
fn literal(text: &str) -> String {
    let mut said = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' if chars.peek() == Some(&'\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
            '\\' => said.extend(chars.next()),
            c => said.push(c),
        }
    }
    said
}

/// `{name}` as `…`.
fn filled(sentence: &str) -> String {
    let mut parts = sentence.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |said, part| said + "…" + part.split_once('}').map_or("", |(_, rest)| rest))
}

fn walk(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // The demo tells its own story.
        if path.is_dir() && !path.ends_with("demo") && !path.ends_with("tests") {
            walk(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") && !path.ends_with("demo.rs") {
            sentences(&fs::read_to_string(path).unwrap(), found);
        }
    }
}

#[test]
fn each_error_sentence_has_its_entry() {
    let mut said = BTreeSet::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut said);
    assert!(said.len() > 100, "the sources are read: {}", said.len());
    let page = include_str!("../../docs/troubleshooting.md");
    let entries: BTreeSet<_> = page.lines().filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`')).map(str::to_owned).collect();
    let missing: Vec<_> = said.difference(&entries).map(|sentence| format!("- `{sentence}`")).collect();
    assert!(missing.is_empty(), "no entry for:\n{}", missing.join("\n"));
    let stale: Vec<_> = entries.difference(&said).cloned().collect();
    assert!(stale.is_empty(), "said no more:\n{}", stale.join("\n"));
}

#[test]
fn a_sentence_is_found_in_every_form() {
    let source = r#"
        bail!("a {} b");
        #[error("gone, and {0} with it: look")]
        ensure!(x == "no", "not so: {x:?} is \"y\"");
        x.with_context(|| format!("{} cannot be met", y))?;
        x.context(said)?;
        anyhow!(
            "first line \
             and second line {z}"
        )
    "#;
    let mut found = BTreeSet::new();
    sentences(source, &mut found);
    let found: Vec<_> = found.into_iter().collect();
    assert_eq!(found, ["first line and second line …", "gone, and … with it: look", "not so: … is \"y\"", "… cannot be met"]);
    let mut found = BTreeSet::new();
    sentences("bail!(\"a {} b\")", &mut found);
    assert!(found.is_empty(), "too short to be a sentence");
}

fn documents() -> Vec<(std::path::PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [root.to_owned(), root.join("docs")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let pages: Vec<_> = files.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    assert!(pages.len() > 10);
    pages.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn each_link_leads_somewhere() {
    for (path, text) in documents() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()).filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            let there = fs::read_to_string(&target).unwrap_or_else(|_| panic!("{}: {link}", path.display()));
            // As GitHub makes them: lower case, hyphens for spaces, nothing for signs.
            let anchor = |line: &str| {
                let kept = line.trim_start_matches('#').trim().to_lowercase();
                kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-')).collect::<String>().replace(' ', "-")
            };
            let found = there.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
            assert!(heading.is_empty() || found, "{}: {link}", path.display());
        }
    }
}

/// Each `neuron-ctk VERB --FLAG` that a document shows.
#[test]
fn each_command_that_is_shown_is_understood() {
    let host = crate::host::FakeHost::small();
    let mut shown = BTreeSet::new();
    for (_, text) in documents() {
        for rest in text.split("neuron-ctk ").skip(1) {
            let command = rest.split(['`', '\n', '|', '#', '(', ';', '>', '&', ',']).next().unwrap();
            let mut words =
                command.split_whitespace().skip_while(|word| word.starts_with("--") || word.starts_with('/') || *word == "host");
            let Some(verb) = words.next().filter(|verb| verb.chars().all(|c| c.is_ascii_lowercase())) else { continue };
            shown.extend(
                words
                    .filter(|word| word.starts_with("--"))
                    .map(|flag| (verb.to_owned(), flag.trim_end_matches(['.', ':', ']']).to_owned())),
            );
        }
    }
    assert!(shown.len() > 10, "{shown:?}");
    for (verb, flag) in shown {
        let help = host.ctk(&[&verb, "--help"]);
        let told = String::from_utf8(help.stdout).unwrap();
        assert!(help.status.success(), "{verb}");
        assert!(told.contains(&flag), "{verb} {flag}");
    }
}
