//! A search over what a list offers, so that a model need not read all of it (progressive discovery).

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Bound;

/// How much of one text is read, in characters: a description may be a book.
const MOST_CHARACTERS: usize = 4_096;
/// How many words of a query count.
const MOST_WORDS: usize = 32;

/// The texts that one definition is found by.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// Its name.
    pub name: &'a str,
    /// Title and description.
    pub texts: [&'a str; 2],
    /// Its tags.
    pub tags: &'a [String],
}

/// An index of words. The same list and query give the same answer, whatever came before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Index {
    /// Word -> where it stands, and how much that counts; each place once.
    words: BTreeMap<String, BTreeMap<usize, u32>>,
    documents: usize,
}

impl Index {
    /// Of a list, in its order.
    pub fn new<'a>(list: impl IntoIterator<Item = Described<'a>>) -> Self {
        let mut index = Self::default();
        for (at, one) in list.into_iter().enumerate() {
            index.documents = at + 1;
            index.read(at, one.name, 8);
            one.tags.iter().for_each(|tag| index.read(at, tag, 4));
            one.texts.iter().for_each(|text| index.read(at, text, 1));
        }
        index
    }

    fn read(&mut self, at: usize, text: &str, weight: u32) {
        for word in words_of(text) {
            let place = self.words.entry(word).or_default().entry(at).or_default();
            *place = (*place).max(weight);
        }
    }

    /// Where the best fits stand in the list, best first, at most so many. More words of the query that fit come
    /// before fewer; a word in the name counts more than in a tag, and that more than in a text; the beginning of a
    /// word counts half. A query without words fits everything.
    pub fn search(&self, query: &str, most: usize) -> Vec<usize> {
        let mut words: Vec<String> = words_of(query).take(MOST_WORDS).collect();
        words.sort();
        words.dedup();
        if words.is_empty() {
            return (0..self.documents.min(most)).collect();
        }
        let mut found: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
        for word in &words {
            let mut best: BTreeMap<usize, u32> = BTreeMap::new();
            let from = (Bound::Included(word.as_str()), Bound::Unbounded);
            for (known, places) in self.words.range::<str, _>(from) {
                if !known.starts_with(word.as_str()) {
                    break;
                }
                let whole = if known == word { 2 } else { 1 };
                for (&at, weight) in places {
                    let place = best.entry(at).or_default();
                    *place = (*place).max(weight * whole);
                }
            }
            for (at, weight) in best {
                let (fitting, sum) = found.entry(at).or_default();
                *fitting += 1;
                *sum += weight;
            }
        }
        let mut ranked: Vec<(usize, (u32, u32))> = found.into_iter().collect();
        ranked.sort_by_key(|&(at, score)| (Reverse(score), at));
        ranked.into_iter().take(most).map(|(at, _)| at).collect()
    }
}

/// The words of a text, in lower case: `findCharge`, `find_charge` and `find charge` are two words each.
fn words_of(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut after_small = false;
    for character in text.chars().take(MOST_CHARACTERS) {
        if (!character.is_alphanumeric() || (character.is_uppercase() && after_small)) && !word.is_empty() {
            words.push(core::mem::take(&mut word));
        }
        after_small = character.is_lowercase() || character.is_numeric();
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn what_fits_best_is_found_first_and_always_the_same() {
        let tags = ["money".to_string(), "Payments".to_string()];
        let one = |name, title, description, tags| Described { name, texts: [title, description], tags };
        let index = Index::new([
            one("list_orders", "", "Lists orders, paid or not", &[]),
            one("findCharge", "Find a charge", "Looks one up by its key", &[]),
            one("charge_account", "", "Takes money from an account", &tags[..]),
            one("refund", "", "Gives a charge back", &tags[..]),
        ]);
        assert_eq!(index.search("charge", 10), [1, 2, 3], "a name before a description; ties by their order");
        assert_eq!(index.search("find charge", 10), [1, 2, 3], "more words first");
        assert_eq!(index.search("FIND_CHARGE", 1), [1]);
        assert_eq!(index.search("payment", 10), [2, 3], "the beginning of a tag's word");
        assert_eq!(index.search("money", 10), [2, 3]);
        assert_eq!(index.search("nonsense", 10), Vec::<usize>::new());
        assert_eq!(index.search(" _ ", 2), [0, 1], "no word fits everything");
        assert_eq!(index.search("charge", 0), Vec::<usize>::new());
        assert_eq!(Index::default().search("charge", 10), Vec::<usize>::new());
        assert_eq!(index.search(&"charge ".repeat(10_000), 1), [1]);
    }
}
