//! What commands print: one JSON value, or a table for people.

use std::io::{self, Write};

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

/// Prints rows under their headers, each column as wide as its widest cell.
pub(crate) fn table<const N: usize>(headers: [&str; N], rows: &[[String; N]]) -> io::Result<()> {
    let mut widths = headers.map(|header| header.chars().count());
    for row in rows {
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
    rows.iter().try_for_each(|row| print(row.each_ref().map(String::as_str)))
}
