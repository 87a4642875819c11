//! What commands print: one JSON value, or a table for people.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// Prints one JSON value and a newline.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, value)?;
    writeln!(stdout)
}

/// Prints one line.
pub(crate) fn line(text: &str) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints text of somebody who is not to be trusted. To a terminal it goes without what a terminal obeys; elsewhere as it
/// is, since a file or a program may want every byte of it.
pub(crate) fn said(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let text = if stdout.is_terminal() { harmless(text) } else { text.into() };
    writeln!(stdout, "{text}")
}

/// Text with its lines and tabs, but without what a terminal obeys or shows in another order than it stands.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    replaced(text, |c| obeyed(c) && !matches!(c, '\n' | '\t'))
}

/// As [`harmless`], in one line.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    replaced(text, obeyed)
}

/// Control characters of both sets, and those that turn the direction of writing.
fn obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn replaced(text: &str, bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&bad) {
        return text.into();
    }
    // The end of a line as Windows writes it is no harm, and neither is one within a sentence.
    let shown = |c| match c {
        '\n' | '\t' => ' ',
        _ => char::REPLACEMENT_CHARACTER,
    };
    text.replace("\r\n", "\n").chars().map(|c| if bad(c) { shown(c) } else { c }).collect::<String>().into()
}

/// Prints rows under their headers, each column as wide as its widest cell.
pub(crate) fn table<const N: usize>(headers: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
    let rows: Vec<[Cow<'_, str>; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| one_line(cell))).collect();
    let mut widths = headers.map(|header| header.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut stdout = io::stdout().lock();
    let mut print = |cells: [&str; N]| {
        let padded: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(stdout, "{}", padded.join("  ").trim_end())
    };
    print(headers)?;
    let rules = widths.map(|width| "─".repeat(width));
    print(rules.each_ref().map(String::as_str))?;
    rows.iter().try_for_each(|row| print(row.each_ref().map(AsRef::as_ref)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_does_not_reach_it() {
        for (text, lines, line) in [
            ("a\tb\r\nü", "a\tb\nü", "a b ü"),
            ("\x1b[2J\x07x", "�[2J�x", "�[2J�x"),
            ("\u{9b}31m\u{7f}", "�31m�", "�31m�"),
            ("over\rwritten", "over�written", "over�written"),
            ("abc\u{202e}cba\u{2066}", "abc�cba�", "abc�cba�"),
        ] {
            assert_eq!((harmless(text).as_ref(), one_line(text).as_ref()), (lines, line));
        }
    }
}
