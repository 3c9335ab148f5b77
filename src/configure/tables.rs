//! Edits of a TOML text that leave everything else as it is: order, comments, layout.

use anyhow::{Context, Result, anyhow, bail};
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// What stands above what is ours, after the name of the engine.
const NOTE: &str = "# neuron-ctk configure wrote this; with --remove it takes it out again.\n";

/// Reads a document.
///
/// # Errors
/// It is no TOML: with line and column.
pub(super) fn parse(text: &str) -> Result<DocumentMut> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        let before = &text[..error.span().map_or(0, |span| span.start.min(text.len()))];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        anyhow!("line {line}, column {column}: {}", error.message().trim())
    })
}

/// What stands at a path.
pub(super) fn get<'a>(document: &'a DocumentMut, path: &[&str]) -> Option<&'a Item> {
    path.iter().try_fold(document.as_item(), |item, name| item.as_table_like()?.get(name))
}

/// What stands at a path, to be changed in its place.
pub(super) fn get_mut<'a>(document: &'a mut DocumentMut, path: &[&str]) -> Option<&'a mut Item> {
    path.iter().try_fold(document.as_item_mut(), |item, name| item.as_table_like_mut()?.get_mut(name))
}

/// The text at a path.
pub(super) fn text<'a>(document: &'a DocumentMut, path: &[&str]) -> Option<&'a str> {
    get(document, path)?.as_str()
}

/// Are these the same but for layout?
pub(super) fn alike(one: &Item, other: &Item) -> bool {
    match (one.as_table_like(), other.as_table_like()) {
        (Some(one), Some(other)) => {
            one.len() == other.len() && one.iter().all(|(key, item)| other.get(key).is_some_and(|other| alike(item, other)))
        }
        _ => match (one.as_array(), other.as_array()) {
            (Some(one), Some(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other).all(|(one, other)| alike(&Item::Value(one.clone()), &Item::Value(other.clone())))
            }
            _ => bare(one) == bare(other),
        },
    }
}

fn bare(item: &Item) -> Option<String> {
    let mut value = item.as_value()?.clone();
    value.decor_mut().clear();
    Some(value.to_string().trim().to_owned())
}

/// Puts a value at a path, unless it is there; tables that lead to it are made, the last one at the end of the file.
///
/// # Errors
/// Something on the way is no table.
pub(super) fn put(document: &mut DocumentMut, path: &[&str], value: Value) -> Result<()> {
    let (name, folder) = path.split_last().context("a path has a last part")?;
    if get(document, path).is_some_and(|item| alike(item, &Item::Value(value.clone()))) {
        return Ok(());
    }
    if let Some(old) = get_mut(document, path) {
        let mut value = value;
        // The blanks and the comment behind the old value are its place's, not its own.
        if let Some(old) = old.as_value() {
            *value.decor_mut() = old.decor().clone();
        }
        *old = Item::Value(value);
        return Ok(());
    }
    if folder.is_empty() && document.as_table().is_empty() {
        // What there is so far are comments; they stay above.
        let comments = whole_lines(document.trailing().as_str().unwrap_or_default());
        document.set_trailing("");
        document.as_table_mut().insert(name, Item::Value(value));
        if let Some(mut key) = document.as_table_mut().key_mut(name) {
            key.leaf_decor_mut().set_prefix(comments);
        }
        return Ok(());
    }
    if !folder.is_empty() && get(document, folder).is_none() {
        put_table(document, folder, Table::new())?;
    }
    table(document, folder)?.insert(name, Item::Value(value));
    Ok(())
}

/// Puts a table at a path in place of what is there, unless that is alike: a new one goes to the end of the file.
///
/// # Errors
/// Something on the way is no table.
pub(super) fn put_table(document: &mut DocumentMut, path: &[&str], content: Table) -> Result<()> {
    let (name, folder) = path.split_last().context("a path has a last part")?;
    if get(document, path).is_some_and(|item| alike(item, &Item::Table(content.clone()))) {
        return Ok(());
    }
    let old = get(document, path).and_then(Item::as_table).map(|old| (old.position(), old.decor().clone()));
    let folder_is_inline = get(document, folder).is_some_and(Item::is_inline_table);
    if folder_is_inline {
        table(document, folder)?.insert(name, Item::Value(Value::InlineTable(content.into_inline_table())));
        return Ok(());
    }
    let mut content = content;
    if let Some((position, decor)) = old {
        content.set_position(position);
        *content.decor_mut() = decor;
    } else {
        // Comments that end a file would stand below a table that they are not about.
        let trailing = whole_lines(document.trailing().as_str().unwrap_or_default());
        document.set_trailing("");
        let blank = if document.as_table().is_empty() && trailing.is_empty() { "" } else { "\n" };
        // Said once a file.
        let note = if document.to_string().contains(NOTE) { "" } else { NOTE };
        content.decor_mut().set_prefix(format!("{trailing}{blank}{note}"));
        content.set_position(Some(isize::MAX));
    }
    table(document, folder)?.insert(name, Item::Table(content));
    Ok(())
}

/// The last line of a file may lack its end.
fn whole_lines(text: &str) -> String {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

/// The table at a path, made where it is missing.
fn table<'a>(document: &'a mut DocumentMut, path: &[&str]) -> Result<&'a mut dyn TableLike> {
    let mut at = document.as_item_mut();
    for (depth, name) in path.iter().enumerate() {
        let inline = at.is_inline_table();
        let made = || {
            let mut table = Table::new();
            table.set_implicit(true);
            if inline { Item::Value(Value::InlineTable(InlineTable::new())) } else { Item::Table(table) }
        };
        let here = at.as_table_like_mut().with_context(|| format!("{} is no table", path[..depth].join(".")))?;
        at = here.entry(name).or_insert_with(made);
    }
    match at.as_table_like_mut() {
        Some(table) => Ok(table),
        None => bail!("{} is no table", path.join(".")),
    }
}

/// Makes what stands at a path as it was before, be that missing; tables that led to it alone go too.
pub(super) fn back(document: &mut DocumentMut, path: &[&str], before: Option<&DocumentMut>) {
    let Some((name, folder)) = path.split_last() else { return };
    if let Some(item) = before.and_then(|before| get(before, path)) {
        let item = item.clone();
        if let Some(now) = get_mut(document, path) {
            *now = item;
        } else if let Ok(table) = table(document, folder) {
            table.insert(name, item);
        }
        return;
    }
    take(document, path);
    for depth in (1..path.len()).rev() {
        let led = &path[..depth];
        let empty = get(document, led).and_then(Item::as_table_like).is_some_and(TableLike::is_empty);
        if !empty || before.is_some_and(|before| get(before, led).is_some()) {
            break;
        }
        take(document, led);
    }
}

/// The same, but only where this text stands there: what somebody has set since stays.
pub(super) fn back_from(document: &mut DocumentMut, path: &[&str], ours: &str, before: Option<&DocumentMut>) {
    if text(document, path) == Some(ours) {
        back(document, path, before);
    }
}

fn take(document: &mut DocumentMut, path: &[&str]) {
    let Some((name, folder)) = path.split_last() else { return };
    let comments = get(document, path).and_then(Item::as_table).and_then(|ours| ours.decor().prefix()?.as_str()).unwrap_or_default();
    // What is said above our note was the end of the file before.
    if let Some((above, _)) = comments.split_once(NOTE) {
        let trailing = document.trailing().as_str().unwrap_or_default();
        document.set_trailing(format!("{}{trailing}", above.strip_suffix('\n').unwrap_or(above)));
    }
    if folder.is_empty() {
        hand_on_comments(document, name);
    }
    if let Some(table) = get_mut(document, folder).and_then(Item::as_table_like_mut) {
        table.remove(name);
    }
}

/// Gives what stands above a key of the root to what comes after it: these comments were there before the key.
fn hand_on_comments(document: &mut DocumentMut, name: &str) {
    let root = document.as_table_mut();
    let above = root.key(name).and_then(|key| key.leaf_decor().prefix()?.as_str()).unwrap_or_default().to_owned();
    let after = root.iter().map(|(key, _)| key.to_owned()).skip_while(|key| key != name).nth(1);
    if let Some(mut key) = after.and_then(|after| root.get(&after)?.is_value().then_some(after)).and_then(|after| root.key_mut(&after)) {
        let own = key.leaf_decor().prefix().and_then(|own| own.as_str()).unwrap_or_default().to_owned();
        key.leaf_decor_mut().set_prefix(above + &own);
        return;
    }
    // The first table of the text, which need not be the first by name.
    let tables = root.iter_mut().filter_map(|(_, item)| item.as_table_mut()).filter(|table| !table.is_implicit());
    if let Some(first) = tables.min_by_key(|table| table.position()) {
        let own = first.decor().prefix().and_then(|own| own.as_str()).unwrap_or_default().to_owned();
        first.decor_mut().set_prefix(above + &own);
        return;
    }
    let trailing = document.trailing().as_str().unwrap_or_default();
    document.set_trailing(format!("{above}{trailing}"));
}

/// The text of a document; one that was made of nothing begins at its first line.
pub(super) fn written(document: &DocumentMut) -> String {
    document.to_string().trim_start_matches('\n').to_owned()
}

/// The text of a document that ours has been taken out of; what is left by now is somebody else's.
pub(super) fn left(document: &DocumentMut) -> String {
    written(document).replace(NOTE, "")
}
