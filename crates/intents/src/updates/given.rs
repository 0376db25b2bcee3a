//! The parameters of a record by the flags that they mean. Each flaw is told at its parameter; what a secret says is in none.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use fairway_http::Url;
use fairway_model::{Name, closest, intent::DnsUpdateRecord};
use fairway_providers::spoken::{Native, Spoken, Use};

use crate::{
    fault::{Fault, step},
    json_wire::Json,
    values::{self, Flaws},
};

/// What a record says, by flag.
pub(super) struct Given<'a> {
    spoken: &'static Spoken,
    /// What the record calls it, and what it says; never an empty text.
    said: BTreeMap<&'static str, (&'a str, &'a str)>,
    flaws: Flaws,
}

impl<'a> Given<'a> {
    /// Sorts the parameters of a record of this provider.
    pub(super) fn sort(spoken: &'static Spoken, record: &'a DnsUpdateRecord) -> Self {
        let mut given = Self { spoken, said: BTreeMap::new(), flaws: Vec::new() };
        let plain = record.parameters.iter().map(|(called, value)| (called.as_str(), value.trim()));
        let secret = record.secrets.iter().map(|(called, value)| (called.as_str(), value.expose().trim()));
        for (called, value) in plain.chain(secret) {
            given.take(called, value);
        }
        given
    }

    fn take(&mut self, called: &'a str, value: &'a str) {
        let detail = match self.spoken.flag(called) {
            None => self.unknown(called),
            Some((flag, Use::Never(why))) => format!("{flag} has no meaning here: {why}"),
            Some((flag, Use::Only(only, why))) if !value.is_empty() && !value.eq_ignore_ascii_case(only) => {
                format!("{flag} can only be {only} here: {why}")
            }
            Some(_) if value.is_empty() => return,
            Some((flag, _)) => match self.said.insert(flag, (called, value)) {
                None => return,
                Some((other, _)) => format!("it means {flag}, and so does {other}; keep one"),
            },
        };
        self.flaws.push(Fault::new(step(called), detail));
    }

    fn unknown(&self, called: &str) -> String {
        let settings: Vec<_> = self.spoken.settings().collect();
        let hint = match closest(called, settings.iter().copied()) {
            Some(flag) => format!("is {flag} meant?"),
            None => format!("it has {}", settings.join(", ")),
        };
        format!("{called:?} is no parameter of the provider {} here; {hint}", self.spoken.provider)
    }

    /// Which provider it is about.
    pub(super) fn native(&self) -> Native {
        self.spoken.native
    }

    /// Whether the provider has a flag.
    pub(super) fn knows(&self, flag: &str) -> bool {
        self.spoken.flag(flag).is_some()
    }

    /// Records a flaw at a flag; of one that is not said, at all of them.
    pub(super) fn flaw(&mut self, flag: &str, detail: impl Into<String>) {
        let detail = format!("{flag}: {}", detail.into());
        let pointer = self.said.get(flag).map(|(called, _)| step(called)).unwrap_or_default();
        self.flaws.push(Fault::new(pointer, detail));
    }

    /// What is wrong with it. What is missing may be what is called otherwise, and is told once everything else is mended.
    pub(super) fn into_flaws(mut self) -> Flaws {
        if self.flaws.iter().any(|flaw| !flaw.pointer.is_empty()) {
            self.flaws.retain(|flaw| !flaw.pointer.is_empty());
        }
        self.flaws
    }

    /// What a flag says.
    pub(super) fn text(&self, flag: &str) -> Option<&'a str> {
        debug_assert!(self.knows(flag), "{flag} stands in no table of {}", self.spoken.provider);
        self.said.get(flag).map(|(_, value)| *value)
    }

    /// Whether a flag says something.
    pub(super) fn has(&self, flag: &str) -> bool {
        self.text(flag).is_some()
    }

    /// What a flag says that must be there.
    pub(super) fn needed(&mut self, flag: &str, example: &str) -> Option<&'a str> {
        let text = self.text(flag);
        if text.is_none() {
            self.flaw(flag, format!("is missing; give {example}"));
        }
        text
    }

    /// What a flag says that may be repeated: with commas between.
    pub(super) fn list(&self, flag: &str) -> Vec<&'a str> {
        let all = self.text(flag).into_iter().flat_map(|text| text.split(','));
        all.map(str::trim).filter(|text| !text.is_empty()).collect()
    }

    /// Domain names.
    pub(super) fn names(&mut self, flag: &str) -> Vec<Name> {
        let mut names = Vec::new();
        for text in self.list(flag) {
            match text.parse::<Name>() {
                Ok(name) => names.push(name),
                Err(error) => {
                    self.flaw(flag, format!("{text:?} is no domain name: {error}; write it like example.com"));
                }
            }
        }
        if names.len() > NAMES_MAX {
            self.flaw(flag, format!("{} names are more than {NAMES_MAX}; make several records", names.len()));
        }
        names
    }

    /// Whether something is switched on.
    pub(super) fn switch(&mut self, flag: &str) -> Option<bool> {
        self.read(flag, values::flag)
    }

    /// A duration with its unit.
    pub(super) fn duration(&mut self, flag: &str, range: &RangeInclusive<Duration>) -> Option<Duration> {
        self.read(flag, |json| values::duration(json, range))
    }

    /// A whole number.
    pub(super) fn whole(&mut self, flag: &str, range: &RangeInclusive<u64>) -> Option<u64> {
        self.read(flag, |json| values::whole(json, range))
    }

    /// One of a few words.
    pub(super) fn word<T: Copy + PartialEq>(&mut self, flag: &str, words: &[(&str, T)]) -> Option<T> {
        self.read(flag, |json| values::word(json, words))
    }

    fn read<T>(&mut self, flag: &str, read: impl Fn(&Json) -> Result<T, Flaws>) -> Option<T> {
        match read(&self.text(flag)?.into()) {
            Ok(value) => Some(value),
            Err(flaws) => {
                flaws.into_iter().for_each(|flaw| self.flaw(flag, flaw.detail));
                None
            }
        }
    }

    /// The URL of an API. It goes into no message: somebody may have written a password into it.
    pub(super) fn url(&mut self, flag: &str, text: &str) -> Option<Url> {
        let url = Url::parse_base(text);
        url.map_err(|error| self.flaw(flag, format!("{error}; {}", error.hint()))).ok()
    }

    /// An endpoint of etcd. Like [`Self::url`], it goes into no message.
    pub(super) fn endpoint(&mut self, flag: &str, text: &str) -> Option<Url> {
        let hint = "write http://HOST:PORT or https://HOST:PORT, without a path";
        Url::parse_origin(text).map_err(|error| self.flaw(flag, format!("{error}; {hint}"))).ok()
    }
}

/// Most names of a flag, as zones of a provider of a configuration.
const NAMES_MAX: usize = 256;
