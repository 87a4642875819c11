//! Where the order of events comes from: a seed, every order in turn, or a recorded list.
//!
//! A simulation asks [`Choices::choose`] whenever more than one thing could happen next, and nothing else
//! about it is undetermined. So the list of answers is the whole run: written down, it is a replay.

use std::fmt;
use std::str::FromStr;

use steadfast_core::rng::Rng;

/// Answers the question "which of the `n` possible events comes next?".
#[derive(Clone, Debug)]
pub struct Choices {
    source: Source,
    /// What was answered in this order, and of how many: at once the record of a run and the wheels of the
    /// odometer.
    taken: Vec<Wheel>,
    /// How many of `taken` this order has used.
    used: usize,
    orders: u64,
}

#[derive(Clone, Debug)]
enum Source {
    /// Drawn from a generator; every order is another one.
    Seeded(Rng),
    /// Every order once, the last question turning fastest.
    Odometer,
    /// A list; beyond its end always the first event.
    Recorded(Path),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wheel {
    at: u32,
    of: u32,
}

impl Choices {
    /// Orders drawn from `seed`: the same seed gives the same orders on every machine.
    pub const fn seeded(seed: u64) -> Self {
        Self::from(Source::Seeded(Rng::new(seed)))
    }

    /// Every order, each once.
    pub const fn exhaustive() -> Self {
        Self::from(Source::Odometer)
    }

    /// The order that was written down.
    pub const fn recorded(path: Path) -> Self {
        Self::from(Source::Recorded(path))
    }

    const fn from(source: Source) -> Self {
        Self { source, taken: Vec::new(), used: 0, orders: 1 }
    }

    /// One of `0..n`. A question with one answer is not recorded, and one with none is answered `0`.
    pub fn choose(&mut self, n: usize) -> usize {
        if n < 2 {
            return 0;
        }
        if let Some(wheel) = self.taken.get(self.used) {
            self.used += 1;
            // A run that asks differently after the same answers would be no function of them.
            debug_assert_eq!(wheel.of as usize, n, "the simulation is not determined by its choices");
            return (wheel.at as usize).min(n - 1);
        }
        let of = u32::try_from(n).unwrap_or(u32::MAX);
        let at = match &mut self.source {
            Source::Seeded(rng) => u32::try_from(rng.up_to(u64::from(of) - 1)).unwrap_or(0),
            Source::Odometer => 0,
            Source::Recorded(path) => path.0.get(self.used).copied().unwrap_or(0).min(of - 1),
        };
        self.taken.push(Wheel { at, of });
        self.used += 1;
        at as usize
    }

    /// Whether this order has left the path that it shares with the one before: what is seen from here on is
    /// new.
    pub fn is_new(&self) -> bool {
        self.used == self.taken.len()
    }

    /// Turns to the next order; `false` when there is none left.
    pub fn advance(&mut self) -> bool {
        self.used = 0;
        match self.source {
            Source::Seeded(_) => self.taken.clear(),
            Source::Recorded(_) => return false,
            Source::Odometer => {
                while self.taken.last().is_some_and(|wheel| wheel.at + 1 == wheel.of) {
                    self.taken.pop();
                }
                match self.taken.last_mut() {
                    None => return false,
                    Some(wheel) => wheel.at += 1,
                }
            }
        }
        self.orders += 1;
        true
    }

    /// How many orders were begun.
    pub const fn orders(&self) -> u64 {
        self.orders
    }

    /// The answers of this order so far.
    pub fn path(&self) -> Path {
        Path(self.taken[..self.used].iter().map(|wheel| wheel.at).collect())
    }
}

/// A list of answers, written `0.2.1`; the empty list is written as nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<u32>);

/// A text that is no list of choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no choice; write numbers separated by dots, as in `0.2.1`")]
pub struct PathError {
    /// The part that could not be read.
    pub found: String,
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let number = |part: &str| part.parse().map_err(|_| PathError { found: part.to_owned() });
        text.split('.').map(number).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, at) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(".")?;
            }
            write!(f, "{at}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every order of three events, where the second is only possible after the first.
    fn order(choices: &mut Choices) -> String {
        let mut left = vec!['a', 'c', 'b'];
        let mut order = String::new();
        while !left.is_empty() {
            let possible = if order.contains('a') || left.len() == 1 { left.len() } else { left.len() - 1 };
            order.push(left.remove(choices.choose(possible)));
        }
        order
    }

    #[test]
    fn the_odometer_gives_every_order_once() {
        let mut choices = Choices::exhaustive();
        let mut orders = vec![order(&mut choices)];
        while choices.advance() {
            orders.push(order(&mut choices));
        }
        assert_eq!(orders, ["acb", "abc", "cab"]);
        assert_eq!(choices.orders(), 3);
    }

    #[test]
    fn a_recorded_order_is_the_order_that_was_recorded() {
        let mut seeded = Choices::seeded(7);
        for _ in 0..20 {
            let seen = order(&mut seeded);
            let path: Path = seeded.path().to_string().parse().unwrap();
            assert_eq!(order(&mut Choices::recorded(path)), seen);
            seeded.advance();
        }
        assert!("1.x".parse::<Path>().is_err());
        assert_eq!("".parse::<Path>().unwrap(), Path::default());
    }

    #[test]
    fn only_the_part_after_the_turned_wheel_is_new() {
        let mut choices = Choices::exhaustive();
        order(&mut choices);
        choices.advance();
        assert!(!choices.is_new());
        choices.choose(2);
        assert!(!choices.is_new());
        choices.choose(2);
        assert!(choices.is_new());
    }
}
