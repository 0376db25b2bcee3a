//! Words of closed sets of values, as written in a file.

use fairway_model::{
    AnswerMode, Contributions, DownAnswer, LoadSignal, LoadUnit, OverrideAction, SharedNamePolicy, Spread, Visibility,
};
use fairway_providers::{
    publish::{Policy, Weights},
    rfc2136::TsigAlgorithm,
};

/// A closed set of values that are written as words.
pub(super) trait Words: Clone + PartialEq + 'static {
    /// The values with their words, in the order in which messages list them.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the value of a word.
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, value)| value.clone())
    }

    /// Returns the word of a value; empty if a file cannot have that value.
    fn word(&self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| value == self).map_or("", |(word, _)| word)
    }
}

impl Words for AnswerMode {
    const WORDS: &'static [(&'static str, Self)] = &[("address", Self::Address), ("cname", Self::Cname)];
}

impl Words for Contributions {
    const WORDS: &'static [(&'static str, Self)] = &[("allow", Self::Allow), ("refuse", Self::Refuse)];
}

/// Answers without addresses of their own.
impl Words for DownAnswer {
    const WORDS: &'static [(&'static str, Self)] =
        &[("all", Self::All), ("empty", Self::Empty), ("refuse", Self::Refuse), ("last-good", Self::LastGood)];
}

impl Words for LoadSignal {
    const WORDS: &'static [(&'static str, Self)] =
        &[("connections", Self::Connections), ("inFlight", Self::InFlight), ("requestRate", Self::RequestRate)];
}

impl Words for LoadUnit {
    const WORDS: &'static [(&'static str, Self)] = &[("capacity", Self::Capacity), ("permille", Self::Permille)];
}

impl Words for OverrideAction {
    const WORDS: &'static [(&'static str, Self)] = &[("drain", Self::Drain), ("down", Self::Down), ("up", Self::Up)];
}

/// Load control, as an override sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadOverride {
    /// The pool is answered by its declared weights.
    Off,
}

impl Words for LoadOverride {
    const WORDS: &'static [(&'static str, Self)] = &[("off", Self::Off)];
}

impl Words for Policy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("sync", Self::Sync), ("upsert-only", Self::UpsertOnly), ("create-only", Self::CreateOnly)];
}

impl Words for SharedNamePolicy {
    const WORDS: &'static [(&'static str, Self)] = &[("merge", Self::Merge), ("refuse", Self::Refuse)];
}

impl Words for Spread {
    const WORDS: &'static [(&'static str, Self)] = &[("client", Self::Client), ("query", Self::Query)];
}

impl Words for TsigAlgorithm {
    const WORDS: &'static [(&'static str, Self)] =
        &[("hmac-sha256", Self::Sha256), ("hmac-sha384", Self::Sha384), ("hmac-sha512", Self::Sha512)];
}

/// Factor of the weights of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WeightBy {
    /// The number of ready endpoints.
    Pods,
}

impl Words for WeightBy {
    const WORDS: &'static [(&'static str, Self)] = &[("pods", Self::Pods)];
}

impl Words for Visibility {
    const WORDS: &'static [(&'static str, Self)] = &[("private", Self::Private), ("public", Self::Public)];
}

impl Words for Weights {
    const WORDS: &'static [(&'static str, Self)] = &[("aws", Self::Aws), ("fairway", Self::Fairway)];
}
