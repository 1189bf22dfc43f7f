//! `transom top`: the live table of connections.
//!
//! Events go into a [`Model`] (pure, bounded), the user's choices into an `App` (pure), and both
//! are drawn by the views. Only `terminal` and [`run`] do I/O.

mod absent;
mod app;
mod column;
mod connection;
mod detail;
mod facts;
mod family;
mod help;
mod history;
mod lines;
mod model;
mod numbers;
mod order;
mod plot;
mod recent;
mod screen;
mod snapshot;
mod spark;
mod table;
mod terminal;
mod theme;

#[cfg(test)]
mod tests;

use std::io::Write;
use std::time::{Duration, Instant};

use transom_event::{Event, LossCause, Names};

pub use column::Column;
pub use connection::{Connection, Counts, Mark};
pub use model::{FADE_NS, MOST_CONNECTIONS, Model};

use app::{App, Status};
use order::{Filter, Order};
use theme::Theme;
use transom_output::note;

/// Where events come from.
pub trait Source {
    /// Waits at most `timeout` for events and gives all that are there to `sink`. It must come
    /// back in time even under a flood of events: keys and drawing wait for it.
    fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(&Event)) -> anyhow::Result<()>;

    /// Events lost since the start, by cause. Events of kind `lost` in the stream say the same:
    /// the larger of both counts is shown.
    fn lost(&self) -> Vec<(LossCause, u64)>;

    /// A remark for the user, e.g. that the source only polls.
    fn note(&self) -> Option<String>;
}

/// How [`run`] shows the connections.
#[derive(Clone, Debug)]
pub struct TopOptions {
    /// Time between two redraws, or, for a snapshot, the time observed; `None` = 0.5 s on a
    /// screen, 1 s for a snapshot.
    pub interval: Option<Duration>,
    /// One table and out, even on a terminal.
    pub once: bool,
    /// One JSON object and out.
    pub json: bool,
    /// ASCII even where the locale allows more.
    pub ascii: bool,
    /// Words that must all match.
    pub filter: String,
    pub sort: Column,
    pub most_connections: usize,
    /// For people; JSON has numbers.
    pub names: Names,
}

impl Default for TopOptions {
    fn default() -> TopOptions {
        TopOptions {
            interval: None,
            once: false,
            json: false,
            ascii: false,
            filter: String::new(),
            sort: Column::Rate,
            most_connections: MOST_CONNECTIONS,
            names: Names::default(),
        }
    }
}

/// Shows the connections until the user quits; without a terminal, prints one snapshot.
pub fn run(source: impl Source, options: TopOptions) -> anyhow::Result<()> {
    let model = Model::new(options.most_connections).named(options.names.clone());
    let mut feed = Feed { source, model };
    let theme = Theme::from_env(options.ascii);
    if options.once || options.json || !terminal::is_usable() {
        return print_snapshot(&mut feed, &options, theme);
    }
    let app = App::new(options.sort, &options.filter);
    terminal::show(&mut feed, app, theme, options.interval.unwrap_or(Duration::from_millis(500)))
}

fn print_snapshot(
    feed: &mut Feed<impl Source>,
    options: &TopOptions,
    theme: Theme,
) -> anyhow::Result<()> {
    let ending = terminal::Ending::watch()?;
    let end = Instant::now() + options.interval.unwrap_or(Duration::from_secs(1));
    feed.tick();
    while Instant::now() < end && !ending.is_asked() {
        let left = end.saturating_duration_since(Instant::now());
        feed.take(left.min(Duration::from_millis(100)))?;
    }
    feed.tick();
    let status = feed.status();
    let (order, filter) =
        (Order { column: options.sort, reverse: false }, Filter::new(&options.filter));
    let text = if options.json {
        format!("{}\n", snapshot::object(&feed.model, &status, order, &filter))
    } else {
        snapshot::table(&feed.model, order, &filter, theme)
    };
    transom_output::standard_output().write_all(text.as_bytes())?;
    if !options.json {
        for (cause, count) in &status.lost {
            note!("transom: {count} {}: {cause}", cause.told_as("events lost"));
        }
        if let Some(note) = &status.note {
            note!("transom: {note}");
        }
    }
    Ok(())
}

/// A source and the model it fills.
struct Feed<S> {
    source: S,
    model: Model,
}

impl<S: Source> Feed<S> {
    fn take(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let model = &mut self.model;
        self.source.poll(timeout, &mut |event| model.push(event))
    }

    fn tick(&mut self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        self.model.tick(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64);
    }

    fn status(&self) -> Status {
        let mut lost = self.source.lost();
        for &(cause, told) in self.model.lost() {
            match lost.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, count)) => *count = told.max(*count),
                None => lost.push((cause, told)),
            }
        }
        lost.retain(|&(_, count)| count > 0);
        Status { lost, note: self.source.note() }
    }
}
