//! The overrides in force: those of the configuration, and those that operators gave by command.

use std::collections::{BTreeMap, BTreeSet};

use fairway_model::{Override, OverrideAction, Timestamp};
use fairway_zones::TargetIndex;

use super::uses::{Site, Uses};
use fairway_store::SavedOverride;

/// Most overrides given by command: enough for every cluster of a large fleet, few enough to match at once.
pub(crate) const OVERRIDES_MAX: usize = 256;

/// Every override that has been said and not yet ended.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// From the configuration.
    declared: Vec<Override>,
    /// By command.
    kept: Vec<SavedOverride>,
}

impl Book {
    /// The overrides of a configuration and those kept from before.
    pub fn new(declared: Vec<Override>, kept: Vec<SavedOverride>) -> Self {
        Self { declared, kept }
    }

    /// The same book with the overrides of another configuration.
    pub fn set_declared(&mut self, declared: Vec<Override>) {
        self.declared = declared;
    }

    /// Those given by command.
    pub fn kept(&self) -> &[SavedOverride] {
        &self.kept
    }

    /// All of them with their ids; those of the configuration have none and come first.
    pub fn all(&self) -> impl Iterator<Item = (Option<&str>, &Override)> {
        let declared = self.declared.iter().map(|said| (None, said));
        declared.chain(self.kept.iter().map(|kept| (Some(kept.id.as_str()), &kept.value)))
    }

    /// The book with one more, or none if it is full.
    pub fn with(&self, new: SavedOverride) -> Option<Self> {
        (self.kept.len() < OVERRIDES_MAX).then(|| {
            let mut next = self.clone();
            next.kept.push(new);
            next
        })
    }

    /// The book without one, and the one; none if no override given by command has this id.
    pub fn without(&self, id: &str) -> Option<(Self, SavedOverride)> {
        let place = self.kept.iter().position(|kept| kept.id == id)?;
        let mut next = self.clone();
        let gone = next.kept.remove(place);
        Some((next, gone))
    }

    /// Takes out what has ended, and returns it.
    pub fn expire(&mut self, now: Timestamp) -> Vec<(Option<String>, Override)> {
        let mut ended: Vec<_> =
            self.declared.extract_if(.., |said| !said.is_active(now)).map(|said| (None, said)).collect();
        ended.extend(self.kept.extract_if(.., |k| !k.value.is_active(now)).map(|k| (Some(k.id), k.value)));
        ended
    }

    /// When the next one ends.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.all().map(|(_, said)| said.expires).min()
    }

    /// What is forced on each target, in the order of their numbers.
    ///
    /// Of several that match, the one that takes out wins: down, then drain, then up. A target with several addresses
    /// behind it is forced as soon as one of them is, since they share one word.
    pub fn forced(&self, uses: &Uses) -> Vec<Option<OverrideAction>> {
        let mut known: BTreeMap<&Site, Option<OverrideAction>> = BTreeMap::new();
        let mut word = |site| *known.entry(site).or_insert_with(|| self.word_for(site));
        let numbers = (0..uses.len()).map(|n| TargetIndex(u32::try_from(n).expect("targets are numbered in 32 bits")));
        numbers.map(|n| uses.sites(n).filter_map(&mut word).min_by_key(|w| rank(*w))).collect()
    }

    fn word_for(&self, (cluster, address): &Site) -> Option<OverrideAction> {
        if self.declared.is_empty() && self.kept.is_empty() {
            return None;
        }
        let matching = self.all().filter(|(_, said)| said.scope.matches(cluster, *address));
        matching.map(|(_, said)| said.action).min_by_key(|word| rank(*word))
    }

    /// The override whose word holds for an address.
    pub fn speaking_for(&self, (cluster, address): &Site) -> Option<&Override> {
        let matching = self.all().filter(|(_, said)| said.scope.matches(cluster, *address));
        matching.map(|(_, said)| said).min_by_key(|said| rank(said.action))
    }
}

/// Addresses that an override holds for now, sorted.
pub(crate) fn held_by(said: &Override, uses: &Uses) -> Vec<String> {
    let numbers = (0..uses.len()).map(|n| TargetIndex(u32::try_from(n).expect("targets are numbered in 32 bits")));
    let sites: BTreeSet<&Site> = numbers.flat_map(|n| uses.sites(n)).collect();
    let held = sites.into_iter().filter(|(cluster, address)| said.scope.matches(cluster, *address));
    held.map(|(cluster, address)| format!("{cluster}/{address}")).collect()
}

/// Which word wins: the smallest.
const fn rank(word: OverrideAction) -> u8 {
    match word {
        OverrideAction::Down => 0,
        OverrideAction::Drain => 1,
        OverrideAction::Up => 2,
    }
}

#[cfg(test)]
mod tests {
    use fairway_model::ClusterName;

    use super::*;

    fn said(scope: &str, forced: OverrideAction, expires: u64) -> Override {
        let expires = Timestamp::from_secs(expires);
        Override { scope: scope.parse().unwrap(), action: forced, reason: "work".to_owned(), expires }
    }

    fn kept(id: &str, said: Override) -> SavedOverride {
        SavedOverride { id: id.to_owned(), value: said }
    }

    fn site(cluster: &str) -> Site {
        (ClusterName::new(cluster).unwrap(), "192.0.2.1".parse().unwrap())
    }

    #[test]
    fn of_several_words_the_one_that_takes_out_wins() {
        let book = Book::new(
            vec![said("eu*", OverrideAction::Up, 9)],
            vec![kept("a", said("eu1", OverrideAction::Drain, 9)), kept("b", said("*2", OverrideAction::Down, 9))],
        );
        let words = ["eu1", "eu2", "eu3", "us1"].map(|cluster| book.word_for(&site(cluster)));
        assert_eq!(words, [Some(OverrideAction::Drain), Some(OverrideAction::Down), Some(OverrideAction::Up), None]);
        assert_eq!(book.speaking_for(&site("eu1")).map(|said| said.action), Some(OverrideAction::Drain));
    }

    #[test]
    fn what_has_ended_is_taken_out_and_named() {
        let mut book =
            Book::new(vec![said("eu1", OverrideAction::Up, 5)], vec![kept("a", said("eu2", OverrideAction::Down, 7))]);
        assert_eq!(book.next_end(), Some(Timestamp::from_secs(5)));
        assert_eq!(book.expire(Timestamp::from_secs(5)), [(None, said("eu1", OverrideAction::Up, 5))]);
        assert_eq!(book.expire(Timestamp::from_secs(6)), []);
        assert_eq!(book.expire(Timestamp::from_secs(7)).len(), 1);
        assert_eq!(book.next_end(), None);
    }

    #[test]
    fn a_full_book_takes_no_more_and_an_unknown_id_removes_nothing() {
        let mut book = Book::default();
        for n in 0..OVERRIDES_MAX {
            book = book.with(kept(&n.to_string(), said("eu1", OverrideAction::Down, 9))).unwrap();
        }
        assert!(book.with(kept("more", said("eu1", OverrideAction::Down, 9))).is_none());
        assert!(book.without("more").is_none());
        let (fewer, gone) = book.without("7").unwrap();
        assert_eq!((fewer.kept().len(), gone.id.as_str()), (OVERRIDES_MAX - 1, "7"));
    }
}
