//! Addresses and host names that a gateway is reached at.

use std::net::IpAddr;

use fairway_model::Name;

/// Addresses and host names that a gateway is reached at, sorted, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Targets {
    /// Addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// Host names, as load balancers of clouds have them.
    pub hosts: Vec<Name>,
}

/// One target as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetText {
    /// An address.
    Address(IpAddr),
    /// A host name.
    Host(Name),
    /// Neither.
    Invalid,
}

impl TargetText {
    /// Reads an address or a host name.
    pub(crate) fn read(text: &str) -> Self {
        if let Ok(address) = text.parse() {
            return Self::Address(address);
        }
        let name = Name::without_control(text).ok().filter(Name::is_host);
        name.map_or(Self::Invalid, |name| Self::Host(name.to_lowercase()))
    }
}

impl Targets {
    /// Maximum number of addresses and host names of a gateway that are used.
    pub(crate) const MAX: usize = 16;

    /// Returns the targets, and the number of those over the limit. Invalid ones are skipped.
    pub(crate) fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> (Self, usize) {
        let mut targets = Self::default();
        for text in texts {
            match TargetText::read(text) {
                TargetText::Address(address) => targets.addresses.push(address),
                TargetText::Host(name) => targets.hosts.push(name),
                TargetText::Invalid => {}
            }
        }
        let omitted = targets.limit();
        (targets, omitted)
    }

    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.hosts.is_empty()
    }

    /// Sorts the targets, so that their order in the object does not matter, and removes those over the limit. Returns the number of
    /// these.
    fn limit(&mut self) -> usize {
        self.addresses.sort_unstable();
        self.addresses.dedup();
        self.hosts.sort_unstable();
        self.hosts.dedup();
        let count = self.addresses.len() + self.hosts.len();
        self.addresses.truncate(Self::MAX);
        self.hosts.truncate(Self::MAX - self.addresses.len());
        self.addresses.shrink_to_fit();
        self.hosts.shrink_to_fit();
        count.saturating_sub(Self::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_sorted_and_limited() {
        let texts: Vec<_> = (0..20).rev().map(|number| format!("192.0.2.{number}")).collect();
        let (targets, omitted) = Targets::read(texts.iter().map(|text| &**text).chain(["lb.example.com"]));
        assert_eq!((targets.addresses.len(), targets.hosts.len(), omitted), (16, 0, 5));
        assert!(targets.addresses.is_sorted());
        let (targets, _) =
            Targets::read(["LB.example.com.", "2001:db8::1", "192.0.2.1", "192.0.2.1", "", "*", "1.2.3"]);
        assert_eq!(targets.addresses, ["192.0.2.1".parse::<IpAddr>().unwrap(), "2001:db8::1".parse().unwrap()]);
        assert_eq!(targets.hosts, ["lb.example.com".parse::<Name>().unwrap()]);
    }
}
