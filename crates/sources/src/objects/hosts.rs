//! Host names with wildcards, and the intersection of those of a gateway and of a route.
//!
//! A wildcard `*.a` stands for names of any number of labels below `a`, as in Istio and the Gateway API. In DNS it does so, too.

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc};

use fairway_model::Name;

/// A host name as an object declares it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostPattern {
    /// All names: `*`, or a listener without a host name.
    Any,
    /// A text that is no name in DNS.
    Invalid(Box<str>),
    /// A name in lower case without the final dot; its first label may be `*`.
    Name(Arc<str>),
}

impl HostPattern {
    /// Reads a host name.
    pub(crate) fn new(text: &str) -> Self {
        if text == ANY {
            return Self::Any;
        }
        // A wildcard is a host name once its first label has letters.
        let (wildcard, rest) = text.strip_prefix("*.").map_or(("", text), |rest| ("*.", rest));
        let is_host = |name: &Name| match name.child(b"x") {
            Ok(child) if !wildcard.is_empty() => child.is_host(),
            // A name without space for a further label has no wildcard in DNS.
            Err(_) if !wildcard.is_empty() => false,
            _ => name.is_host(),
        };
        match Name::without_control(rest).ok().filter(is_host) {
            Some(name) => Self::Name(format!("{wildcard}{}", name.to_plain()).into()),
            None => Self::Invalid(text.chars().take(TEXT_MAX).collect::<String>().into()),
        }
    }

    /// Returns the names that both stand for, as the more specific of the two. Returns `None` if there is none.
    pub(crate) fn intersection(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Invalid(_), _) | (_, Self::Invalid(_)) => None,
            (Self::Any, specific) | (specific, Self::Any) => Some(specific.clone()),
            (Self::Name(own), Self::Name(of_other)) if covers(own, of_other) => Some(other.clone()),
            (Self::Name(own), Self::Name(of_other)) if covers(of_other, own) => Some(self.clone()),
            _ => None,
        }
    }
}

/// Returns true if a name, perhaps a wildcard, stands for all names of the other.
fn covers(name: &str, other: &str) -> bool {
    name == other || name.strip_prefix('*').is_some_and(|suffix| other.ends_with(suffix))
}

/// A host of a server of Istio's Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerHost {
    /// Name, or `*` for all.
    pub(crate) host: Arc<str>,
    /// Namespaces whose VirtualServices may use it.
    pub(crate) namespace: NamespaceFilter,
}

/// Namespaces: all of them, or one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NamespaceFilter {
    /// All namespaces.
    All,
    /// One namespace.
    One(Arc<str>),
}

impl NamespaceFilter {
    fn has(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => **one == *namespace,
        }
    }
}

/// The hosts of all servers of an Istio Gateway.
///
/// They are sorted by their labels from the right, so that those below a name follow one another: a gateway and a VirtualService of
/// 10,000 hosts each are intersected without comparing every pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerHosts(pub(super) Box<[ServerHost]>);

/// The result of an intersection with [`ServerHosts`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommonHosts {
    /// Names.
    pub(crate) names: BTreeSet<Arc<str>>,
    /// True if both sides have `*`.
    pub(crate) has_any: bool,
}

impl ServerHosts {
    /// Returns the hosts.
    pub(crate) fn new(mut hosts: Vec<ServerHost>) -> Self {
        hosts.sort_unstable_by(|a, b| labels(&a.host).cmp(labels(&b.host)).then_with(|| a.namespace.cmp(&b.namespace)));
        hosts.dedup();
        Self(hosts.into())
    }

    /// Returns the names that a VirtualService in a namespace has in common with them. Of a wildcard and a name that it covers, this is
    /// the name.
    pub(crate) fn intersection(&self, hosts: &[HostPattern], namespace: &str) -> CommonHosts {
        let mut common = CommonHosts::default();
        for host in hosts {
            match host {
                HostPattern::Any => {
                    common.has_any |= self.has_any(namespace);
                    let named = self.0.iter().filter(|own| &*own.host != ANY && own.namespace.has(namespace));
                    common.names.extend(named.map(|own| Arc::clone(&own.host)));
                }
                HostPattern::Invalid(_) => {}
                HostPattern::Name(name) => {
                    if self.is_covered(name, namespace) {
                        common.names.insert(Arc::clone(name));
                    }
                    if let Some(parent) = name.strip_prefix("*.") {
                        common.names.extend(self.below(parent, namespace).map(|own| Arc::clone(&own.host)));
                    }
                }
            }
        }
        common
    }

    fn has_any(&self, namespace: &str) -> bool {
        self.has(ANY, None, namespace)
    }

    /// Returns true if a host is the name or a wildcard that covers it.
    fn is_covered(&self, name: &str, namespace: &str) -> bool {
        let mut parents = name.match_indices('.').map(|(at, _)| &name[at + 1..]);
        self.has(name, None, namespace)
            || parents.any(|parent| self.has(parent, Some(ANY), namespace))
            || self.has_any(namespace)
    }

    /// Returns true if there is a host of this name, or with this label below it.
    fn has(&self, name: &str, below: Option<&str>, namespace: &str) -> bool {
        let start = self.0.partition_point(|own| labels(&own.host).cmp(labels(name).chain(below)) == Ordering::Less);
        let mut equal = self.0[start..].iter().take_while(|own| labels(&own.host).eq(labels(name).chain(below)));
        equal.any(|own| own.namespace.has(namespace))
    }

    /// Returns the hosts below a name.
    fn below<'a>(&'a self, parent: &'a str, namespace: &'a str) -> impl Iterator<Item = &'a ServerHost> {
        let start = self.0.partition_point(|own| labels(&own.host).cmp(labels(parent)) != Ordering::Greater);
        let is_below = move |own: &&ServerHost| own.host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.'));
        self.0[start..].iter().take_while(is_below).filter(move |own| own.namespace.has(namespace))
    }
}

/// Returns the labels of a name from right to left.
fn labels(name: &str) -> impl Iterator<Item = &str> + Clone {
    name.rsplit('.')
}

/// The pattern of all names.
const ANY: &str = "*";
/// Maximum number of characters of an invalid host that are kept for its problem: no name in DNS is longer.
const TEXT_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use fairway_model::SplitMix;

    use super::*;

    fn hosts(texts: &[&str]) -> ServerHosts {
        let host = |text: &&str| {
            let (namespace, host) = text.split_once('/').unwrap_or(("*", text));
            let namespace =
                if namespace == "*" { NamespaceFilter::All } else { NamespaceFilter::One(namespace.into()) };
            ServerHost { host: host.into(), namespace }
        };
        ServerHosts::new(texts.iter().map(host).collect())
    }

    fn names(gateway: &[&str], route: &[&str]) -> Vec<String> {
        let route: Vec<_> = route.iter().map(|text| HostPattern::new(text)).collect();
        let common = hosts(gateway).intersection(&route, "shop");
        common.names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn host_is_read_in_lower_case_without_final_dot() {
        for (text, name) in
            [("Shop.Example.", "shop.example"), ("*.Shop.example", "*.shop.example"), ("*.test", "*.test")]
        {
            assert_eq!(HostPattern::new(text), HostPattern::Name(name.into()), "{text}");
        }
        assert_eq!(HostPattern::new("*"), HostPattern::Any);
    }

    #[test]
    fn text_that_is_no_host_is_invalid() {
        let long = format!("{}.example", "a".repeat(64));
        let full = format!("*.{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        let texts = ["", ".", "*.", "bücher.example", "a.*.example", "*a.example", "192.0.2.1", "a b.example", "web"];
        for text in texts.into_iter().chain([&*long, &*full, "a\\.b.example", "a..example", "*.*.example"]) {
            assert_eq!(HostPattern::new(text), HostPattern::Invalid(text.into()), "{text}");
        }
    }

    #[test]
    fn more_specific_of_two_hosts_is_the_name() {
        assert_eq!(names(&["*"], &["a.x.test", "*.y.test"]), ["*.y.test", "a.x.test"]);
        assert_eq!(
            names(&["*.x.test"], &["a.b.x.test", "x.test", "ax.test", "*.b.x.test"]),
            ["*.b.x.test", "a.b.x.test"]
        );
        assert_eq!(names(&["a.x.test", "b.x.test", "x.test", "a.y.test"], &["*.x.test"]), ["a.x.test", "b.x.test"]);
        assert_eq!(names(&["*.x.test", "a.x.test"], &["*.x.test"]), ["*.x.test", "a.x.test"]);
        assert_eq!(names(&["a.x.test", "*.y.test", "*"], &["*"]), ["*.y.test", "a.x.test"]);
        assert_eq!(names(&["a.x.test"], &["b.x.test"]), [""; 0]);
    }

    #[test]
    fn host_of_a_server_serves_its_namespace_only() {
        assert_eq!(names(&["other/*.x.test", "shop/a.x.test"], &["a.x.test", "b.x.test"]), ["a.x.test"]);
        assert_eq!(names(&["other/a.x.test", "shop/b.x.test"], &["*.x.test"]), ["b.x.test"]);
        assert_eq!(names(&["other/*"], &["a.x.test"]), [""; 0]);
    }

    #[test]
    fn any_on_both_sides_is_no_name() {
        let common = hosts(&["*"]).intersection(&[HostPattern::Any], "shop");
        assert!(common.has_any && common.names.is_empty());
        assert!(!hosts(&["other/*"]).intersection(&[HostPattern::Any], "shop").has_any);
    }

    #[test]
    fn intersection_is_that_of_every_pair() {
        let texts =
            ["*", "*.x.test", "*.a.x.test", "a.x.test", "b.a.x.test", "x.test", "*.test", "ax.test", "*.b.test"];
        for seed in 0..2_000 {
            let mut random = SplitMix::new(seed);
            let mut draw = || -> Vec<&str> { texts.into_iter().filter(|_| random.below(3) == 0).collect() };
            let (gateway, route) = (draw(), draw());
            let pairs = gateway.iter().flat_map(|own| route.iter().map(move |other| (own, other)));
            let each = pairs.filter_map(|(own, other)| HostPattern::new(own).intersection(&HostPattern::new(other)));
            let expected: BTreeSet<_> = each
                .filter_map(|host| match host {
                    HostPattern::Name(name) => Some(name.to_string()),
                    _ => None,
                })
                .collect();
            assert_eq!(names(&gateway, &route), Vec::from_iter(expected), "seed {seed}");
        }
    }

    #[test]
    fn ten_thousand_hosts_on_both_sides_are_intersected_quickly() {
        let texts: Vec<_> = (0..10_000).map(|number| format!("h{number}.x.test")).collect();
        let texts: Vec<_> = texts.iter().map(|text| &**text).collect();
        assert_eq!(names(&texts, &texts).len(), 10_000);
        assert_eq!(names(&texts, &["*.x.test", "*"]).len(), 10_000);
    }
}
