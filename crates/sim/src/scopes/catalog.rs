//! A list of two pages that two authorization contexts keep, and share where the server calls it public: its pages
//! come, fail, ask or lose their cursor, notices overtake them, and time goes by, in every order.

use std::time::Duration;

use steadfast_core::catalog::{
    Bounds, Entry, Failed, Hints, Next, Policy, Sharing, Step, Ticket, Walk, Whole,
};
use steadfast_core::time::{Instant, Now};

use super::Scope;
use crate::event::{Catalog, Event};
use crate::planted::catalog as planted;
use crate::run::Run;

pub(super) fn scopes() -> Vec<Scope> {
    vec![
        Scope::new("catalog-shared", |run| World::new(2, 9, false).play(run)),
        Scope::new("catalog-faults", |run| World::new(1, 9, true).play(run)),
    ]
}

const POLICY: Policy = Policy { ttl: Duration::from_millis(100), stale_for: Duration::from_millis(10) };
const TTL_MS: u64 = 20;
const PAUSE_MS: u64 = 10;
const PAGES: u8 = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Do {
    Need(u8),
    Page(u8, Sharing),
    Asks(u8),
    BadCursor(u8),
    Fail(u8),
    Change,
    Pause,
}

/// What is kept: which fetch brought it, and how many pages.
type List = (u8, u8);

#[derive(Clone, Hash)]
struct Fetching {
    fetch: u8,
    ticket: Ticket,
    walk: Walk,
    pages: u8,
    first: Sharing,
    /// How often the list had changed when it began, as whoever shares knows.
    generation: u8,
}

#[derive(Clone, Hash)]
struct World {
    owners: Vec<(Entry<List>, Option<Fetching>)>,
    /// Where everybody finds what is public, and until when.
    shared: Option<(List, Instant)>,
    generation: u8,
    faults: bool,
    now_ms: u64,
    fetches: u8,
    steps_left: u8,
    pauses_left: u8,
    changes_left: u8,
}

impl World {
    fn new(owners: usize, steps_left: u8, faults: bool) -> Self {
        Self {
            owners: vec![(Entry::default(), None); owners],
            shared: None,
            generation: 0,
            faults,
            now_ms: 0,
            fetches: 0,
            steps_left,
            pauses_left: 3,
            changes_left: 1,
        }
    }

    fn play(mut self, run: &mut Run<'_>) {
        while !run.is_over() && self.steps_left > 0 {
            run.visit(&self);
            let possible = self.possible();
            self.steps_left -= 1;
            let chosen = possible[run.choose(possible.len())];
            self.act(chosen, run);
        }
    }

    fn possible(&self) -> Vec<Do> {
        let mut possible = Vec::new();
        for (owner, (_, fetching)) in (0..).zip(&self.owners) {
            match fetching {
                None => possible.push(Do::Need(owner)),
                Some(fetching) => {
                    possible
                        .extend([Sharing::Public, Sharing::Private].map(|sharing| Do::Page(owner, sharing)));
                    if self.faults {
                        possible.push(Do::Fail(owner));
                        if fetching.pages > 0 {
                            possible.extend([Do::Asks(owner), Do::BadCursor(owner)]);
                        }
                    }
                }
            }
        }
        if self.changes_left > 0 {
            possible.push(Do::Change);
        }
        if self.pauses_left > 0 {
            possible.push(Do::Pause);
        }
        possible
    }

    fn act(&mut self, what: Do, run: &mut Run<'_>) {
        match what {
            Do::Pause => {
                self.pauses_left -= 1;
                self.now_ms += PAUSE_MS;
            }
            Do::Change => {
                self.changes_left -= 1;
                self.generation += 1;
                self.shared = None;
                let now = self.now();
                for (entry, fetching) in &mut self.owners {
                    if fetching.is_none() || planted::hears_while_fetching(run.bug()) {
                        entry.changed(now);
                    }
                }
                self.see(run, Catalog::Changed);
            }
            Do::Need(owner) => self.need(owner, run),
            Do::Page(owner, sharing) => self.page(owner, sharing, run),
            Do::Asks(owner) => {
                let Some(fetching) = self.owners[usize::from(owner)].1.clone() else { return };
                self.see(run, Catalog::Asks { fetch: fetching.fetch });
                if planted::keeps_questions(run.bug()) {
                    let expires = self.now().saturating_add(POLICY.ttl);
                    self.keep(owner, Whole { expires, sharing: Sharing::Private, cut: None }, run);
                } else {
                    self.fail(owner, Failed::Refused, run);
                }
            }
            Do::Fail(owner) => {
                let Some(fetching) = &self.owners[usize::from(owner)].1 else { return };
                self.see(run, Catalog::Failed { fetch: fetching.fetch });
                self.fail(owner, Failed::Passing, run);
            }
            Do::BadCursor(owner) => self.bad_cursor(owner, run),
        }
    }

    fn need(&mut self, owner: u8, run: &mut Run<'_>) {
        let now = self.now();
        let entry = &mut self.owners[usize::from(owner)].0;
        match entry.need(now) {
            Next::Serve => self.serve(owner, run),
            Next::Join => {}
            Next::Fetch(ticket) => match self.shared {
                Some((list, expires)) if now < expires => {
                    entry.fetched(ticket, now, expires, Sharing::Public, list);
                    self.serve(owner, run);
                }
                Some(_) | None => self.begin(owner, ticket, Walk::new(Bounds::DEFAULT, POLICY.ttl), run),
            },
        }
    }

    fn begin(&mut self, owner: u8, ticket: Ticket, walk: Walk, run: &mut Run<'_>) {
        let fetch = self.fetches;
        self.fetches += 1;
        let (first, generation) = (Sharing::Private, self.generation);
        let fetching = Fetching { fetch, ticket, walk, pages: 0, first, generation };
        self.owners[usize::from(owner)].1 = Some(fetching);
        self.see(run, Catalog::Fetching { owner, fetch });
    }

    fn page(&mut self, owner: u8, sharing: Sharing, run: &mut Run<'_>) {
        let now = self.now();
        let (entry, fetching) = &mut self.owners[usize::from(owner)];
        let Some(of) = fetching else { return };
        of.pages += 1;
        if of.pages == 1 {
            of.first = sharing;
        }
        let hints = Hints { ttl: Duration::from_millis(TTL_MS), sharing };
        let next = (of.pages < PAGES).then_some("\"next\"");
        let step = of.walk.page(now, hints, 1, next);
        let renewed = entry.renew(of.ticket);
        let (fetch, first) = (of.fetch, of.first);
        self.see(run, Catalog::Page { fetch, ttl_ms: TTL_MS, public: sharing == Sharing::Public });
        match (renewed, step) {
            (Some(ticket), _) => self.begin(owner, ticket, Walk::new(Bounds::DEFAULT, POLICY.ttl), run),
            (None, Step::Page(_)) => {}
            (None, Step::Done(whole)) => {
                let policy = now.saturating_add(POLICY.ttl);
                self.keep(owner, planted::whole(run.bug(), whole, first, policy), run);
            }
        }
    }

    fn bad_cursor(&mut self, owner: u8, run: &mut Run<'_>) {
        let Some(mut of) = self.owners[usize::from(owner)].1.clone() else { return };
        self.see(run, Catalog::BadCursor { fetch: of.fetch });
        if planted::keeps_pages(run.bug()) {
            return;
        }
        if of.walk.bad_cursor() {
            self.begin(owner, of.ticket, of.walk, run);
        } else {
            self.fail(owner, Failed::Passing, run);
        }
    }

    fn keep(&mut self, owner: u8, whole: Whole, run: &mut Run<'_>) {
        let now = self.now();
        let (entry, fetching) = &mut self.owners[usize::from(owner)];
        let Some(of) = fetching.take() else { return };
        let list = (of.fetch, of.pages);
        let is_current = entry.fetched(of.ticket, now, whole.expires, whole.sharing, list);
        if is_current && of.generation == self.generation && planted::is_shared(run.bug(), whole.sharing) {
            self.shared = Some((list, whole.expires));
        }
        self.serve(owner, run);
    }

    fn fail(&mut self, owner: u8, why: Failed, run: &mut Run<'_>) {
        let now = self.now();
        let (entry, fetching) = &mut self.owners[usize::from(owner)];
        let Some(of) = fetching.take() else { return };
        if entry.failed(of.ticket, now, why, POLICY) {
            self.serve(owner, run);
        }
    }

    fn serve(&self, owner: u8, run: &mut Run<'_>) {
        let Some(held) = self.owners[usize::from(owner)].0.held() else { return };
        let ((fetch, pages), fresh) = (held.value, held.is_fresh(self.now()));
        self.see(run, Catalog::Served { owner, fetch, pages, fresh });
    }

    const fn now(&self) -> Instant {
        Instant::from_millis(self.now_ms)
    }

    fn see(&self, run: &mut Run<'_>, event: Catalog) {
        run.see(Now::at_millis(self.now_ms), Event::Catalog(event));
    }
}
