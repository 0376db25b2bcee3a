//! Names of registry TXT records, as ExternalDNS builds them (`registry/mapper`).

use fairway_model::{Name, NameError, Rtype};

use crate::endpoint::TYPES;

/// Prefix and suffix of registry names. The default name for the addresses of `www.example.com` is `a-www.example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affix {
    prefix: String,
    suffix: String,
    /// Replacement of a first label `*`; empty to keep it.
    wildcard: String,
}

/// The reason why an affix is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AffixError {
    /// A prefix and a suffix.
    #[error("a registry has a prefix or a suffix, not both (as in ExternalDNS)")]
    Both,
    /// Its names are not domain names.
    #[error("invalid registry name: {0}")]
    Name(#[from] NameError),
}

impl Affix {
    /// Creates an affix from a prefix or a suffix of the first label, and the replacement of `*`. `%{record_type}` is replaced by the type;
    /// dots separate labels.
    pub fn new(prefix: &str, suffix: &str, wildcard: &str) -> Result<Self, AffixError> {
        if !prefix.is_empty() && !suffix.is_empty() {
            return Err(AffixError::Both);
        }
        let [prefix, suffix, wildcard] = [prefix, suffix, wildcard].map(str::to_ascii_lowercase);
        let affix = Self { prefix, suffix, wildcard };
        let tried = Name::root().child(b"x")?;
        affix.companion(&tried, Rtype::AAAA)?;
        affix.companion(&tried.child(b"*")?, Rtype::AAAA)?;
        Ok(affix)
    }

    /// Returns the name of the registry record of a set.
    pub fn companion(&self, name: &Name, rtype: Rtype) -> Result<Name, NameError> {
        self.shape(&rtype.to_string().to_ascii_lowercase()).around(name, &self.wildcard)
    }

    /// Returns the name without a type, which ExternalDNS used up to 0.17.
    pub(super) fn companion_without_type(&self, name: &Name) -> Result<Name, NameError> {
        let [prefix, suffix] = [&self.prefix, &self.suffix].map(|affix| affix.replace(TYPE, ""));
        Shape::new(&prefix, &suffix).around(name, &self.wildcard)
    }

    /// Returns the sets whose registry record may have this name.
    pub(super) fn sets_of(&self, companion: &Name) -> Vec<(Name, Rtype)> {
        let named = |rtype: Rtype| {
            let name = self.shape(&rtype.to_string().to_ascii_lowercase()).inside(companion, &self.wildcard)?;
            (self.companion(&name, rtype).ok()? == *companion).then_some((name, rtype))
        };
        TYPES.iter().chain(OURS).filter_map(|rtype| named(*rtype)).collect()
    }

    fn shape(&self, tag: &str) -> Shape {
        let [prefix, suffix] = [&self.prefix, &self.suffix].map(|affix| affix.replace(TYPE, tag));
        let has_type = self.prefix.contains(TYPE) || self.suffix.contains(TYPE);
        Shape::new(&if has_type { prefix } else { format!("{prefix}{tag}-") }, &suffix)
    }
}

/// The additions to the first label of a name: whole labels, and parts of the label itself.
struct Shape {
    above: Vec<String>,
    head: String,
    tail: String,
    below: Vec<String>,
}

impl Shape {
    fn new(prefix: &str, suffix: &str) -> Self {
        let mut above: Vec<_> = prefix.split('.').map(str::to_owned).collect();
        let head = above.pop().unwrap_or_default();
        let (tail, below) = suffix.split_once('.').map_or((suffix, None), |(tail, below)| (tail, Some(below)));
        let below = below.into_iter().flat_map(|below| below.split('.')).map(str::to_owned).collect();
        Self { above, head, tail: tail.to_owned(), below }
    }

    fn around(&self, name: &Name, wildcard: &str) -> Result<Name, NameError> {
        let (Some(first), Some(parent)) = (name.labels().next(), name.parent()) else {
            return Err(NameError::EmptyLabel);
        };
        let first = if first == b"*" && !wildcard.is_empty() { wildcard.as_bytes() } else { first };
        let label = [self.head.as_bytes(), first, self.tail.as_bytes()].concat();
        let labels = self.above.iter().map(String::as_bytes).chain([&label[..]]);
        let labels: Vec<&[u8]> = labels.chain(self.below.iter().map(String::as_bytes)).collect();
        labels.iter().rev().try_fold(parent, |name, label| name.child(label))
    }

    fn inside(&self, companion: &Name, wildcard: &str) -> Option<Name> {
        let labels: Vec<&[u8]> = companion.labels().collect();
        let lower = labels.get(self.above.len())?.to_ascii_lowercase();
        let first = lower.strip_prefix(self.head.as_bytes())?.strip_suffix(self.tail.as_bytes())?;
        let first = if !first.is_empty() && first == wildcard.as_bytes() { b"*" } else { first };
        let rest = labels.get(self.above.len() + 1 + self.below.len()..)?;
        let parent = rest.iter().rev().try_fold(Name::root(), |name, label| name.child(label)).ok()?;
        parent.child(first).ok()
    }
}

/// Placeholder of the type in an affix.
const TYPE: &str = "%{record_type}";
/// Types that Fairway writes in addition to those of ExternalDNS.
const OURS: &[Rtype] = &[Rtype::DS, Rtype::CAA, Rtype::SVCB, Rtype::HTTPS, Rtype::TLSA];

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn names_are_those_of_external_dns() {
        for (prefix, suffix, of, is) in [
            ("", "", "www.example.com", "a-www.example.com"),
            ("txt-", "", "www.example.com", "txt-a-www.example.com"),
            ("txt.", "", "www.example.com", "txt.a-www.example.com"),
            ("%{record_type}-x.", "", "www.example.com", "a-x.www.example.com"),
            ("", "-txt", "www.example.com", "a-www-txt.example.com"),
            ("", "-%{record_type}.own", "www.example.com", "www-a.own.example.com"),
            ("", "", "*.example.com", "a-*.example.com"),
        ] {
            let affix = Affix::new(prefix, suffix, "").unwrap();
            assert_eq!(affix.companion(&name(of), Rtype::A).unwrap().to_string(), format!("{is}."));
            assert!(affix.sets_of(&name(is)).contains(&(name(of), Rtype::A)), "{prefix}{suffix}");
        }
    }

    #[test]
    fn wildcard_is_replaced_and_restored() {
        let affix = Affix::new("", "", "any").unwrap();
        assert_eq!(affix.companion(&name("*.x."), Rtype::CNAME).unwrap(), name("cname-any.x."));
        assert_eq!(affix.sets_of(&name("cname-any.x.")), [(name("*.x."), Rtype::CNAME)]);
    }

    #[test]
    fn invalid_affix_is_rejected() {
        assert_eq!(Affix::new("a", "b", ""), Err(AffixError::Both));
        assert!(matches!(Affix::new("a..b", "", ""), Err(AffixError::Name(_))));
        assert!(matches!(Affix::new(&"p".repeat(62), "", ""), Err(AffixError::Name(_))));
    }

    #[test]
    fn too_long_name_and_root_have_no_registry_name() {
        let long = name(&format!("{}.x.", "a".repeat(62)));
        assert_eq!(Affix::default().companion(&long, Rtype::A), Err(NameError::Label(64)));
        assert!(Affix::default().companion(&Name::root(), Rtype::NS).is_err());
    }
}
