//! The progress of one call on a terminal: one line that is written over.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use steadfast::core::exchange::Progress;

use crate::ui;

/// Where it shows that time goes by although nothing comes.
const TICK: Duration = Duration::from_millis(100);
/// Into how many steps the way to the total is cut: progress values are no whole numbers.
const STEPS: f64 = 1_000.0;

/// On stderr; nothing at all if that is no terminal.
#[derive(Clone)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// One that shows how long the call has taken, or one that shows nothing.
    pub(crate) fn start(shown: bool) -> Self {
        let bar = if shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_style(style("{spinner} {elapsed} {wide_msg}"));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// How far the server says that it is, and its words without what a terminal obeys.
    pub(crate) fn show(&self, progress: &Progress) {
        let words = progress.message.as_deref().map(ui::one_line).unwrap_or_default();
        let value = progress.value.get();
        let Some(total) = progress.total.map(|total| total.get()).filter(|total| *total > 0.0) else {
            return self.0.set_message(format!("{value} {words}"));
        };
        if self.0.length().is_none() {
            self.0.set_style(style("{elapsed} [{bar:24}] {wide_msg}"));
            self.0.set_length(STEPS as u64);
        }
        self.0.set_position((value / total * STEPS).clamp(0.0, STEPS) as u64);
        self.0.set_message(format!("{value} of {total} {words}"));
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates stand above and are valid.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
