//! Grants of domain names to tenants: which names a tenant may claim, with which record types.
//!
//! ```text
//! project of an intent, owner of a row, namespace of an object in Kubernetes ─► Tenant ─┐
//! name and record type ─────────────────────────────────────────────────────────────────┴► NameGrants::check ─► allowed, or why not and the line to add
//! ```

use std::{collections::BTreeSet, fmt, str::FromStr};

use fairway_model::{Name, Rtype};

/// A party that claims names. In a grant the name `*` means all of the kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tenant {
    /// Everything in a Kubernetes cluster. Only a grant has it: what is read there has its namespace.
    Cluster(String),
    /// The objects in one namespace of a Kubernetes cluster. In a grant, the cluster may be `*`.
    Namespace {
        /// The cluster.
        cluster: String,
        /// The namespace.
        namespace: String,
    },
    /// The webhook client at `/owners/NAME`, or the clients at `/` for the name `/`. The owners that these put into labels are not
    /// proven, so they are one tenant.
    Owner(String),
    /// The intents of a project.
    Project(String),
}

impl Tenant {
    /// Name of the webhook clients without a base path.
    pub const ROOT: &str = "/";

    /// Returns true if a grant to this tenant applies to another.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Owner(all), Self::Owner(_)) | (Self::Project(all), Self::Project(_)) if all == "*" => true,
            (Self::Cluster(of), Self::Namespace { cluster, .. }) => of == "*" || of == cluster,
            (Self::Namespace { cluster, namespace }, Self::Namespace { cluster: of, namespace: wanted }) => {
                namespace == wanted && (cluster == "*" || cluster == of)
            }
            _ => self == other,
        }
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(name) => write!(f, "cluster:{name}"),
            Self::Namespace { cluster, namespace } => write!(f, "namespace:{cluster}/{namespace}"),
            Self::Owner(name) => write!(f, "owner:{name}"),
            Self::Project(name) => write!(f, "project:{name}"),
        }
    }
}

impl FromStr for Tenant {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, name) = text.split_once(':').filter(|(_, name)| super::identity::is_plain(name)).ok_or(())?;
        match kind {
            "cluster" => Ok(Self::Cluster(name.to_owned())),
            "namespace" => {
                let (cluster, namespace) = name.split_once('/').ok_or(())?;
                Ok(Self::Namespace { cluster: cluster.to_owned(), namespace: namespace.to_owned() })
            }
            "owner" => Ok(Self::Owner(name.to_owned())),
            "project" => Ok(Self::Project(name.to_owned())),
            _ => Err(()),
        }
    }
}

/// Record types of a grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordTypes {
    /// The types; `None` for all except [`RecordTypes::SENSITIVE`].
    pub listed: Option<BTreeSet<Rtype>>,
    /// True if records at `_acme-challenge` names are included. With such a record a tenant gets certificates for the name below it.
    pub has_challenges: bool,
}

impl RecordTypes {
    /// Types that are granted only where they are listed. NS and DNAME hide all names below them, and a DS record can make them bogus.
    pub const SENSITIVE: [Rtype; 3] = [Rtype::NS, Rtype::DS, Rtype::DNAME];

    /// Returns true if records of a type are granted at a name.
    fn cover(&self, name: &Name, rtype: Rtype) -> bool {
        let is_granted = match &self.listed {
            Some(listed) => listed.contains(&rtype),
            None => !Self::SENSITIVE.contains(&rtype),
        };
        is_granted && (self.has_challenges || !is_challenge(name, rtype))
    }
}

/// Returns true for records that a certificate authority may read as an ACME challenge (RFC 8555 section 8.4): all at the name
/// itself, and TXT and CNAME records at a wildcard, which answers the name too.
fn is_challenge(name: &Name, rtype: Rtype) -> bool {
    let is_named = name.labels().next().is_some_and(|first| first.eq_ignore_ascii_case(CHALLENGE.as_bytes()));
    is_named || name.is_wildcard() && matches!(rtype, Rtype::TXT | Rtype::CNAME)
}

/// First label of the names of ACME challenges, and the word for them in a list of types.
pub const CHALLENGE: &str = "_acme-challenge";

/// Domains and record types that tenants may claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameGrant {
    /// The tenants.
    pub to: BTreeSet<Tenant>,
    /// The domains. Each covers itself and all names below it.
    pub domains: Vec<Name>,
    /// The record types.
    pub types: RecordTypes,
}

/// All grants of names. The default is that of a server without access rules: one tenant, which may claim everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameGrants {
    /// True if there are access rules, so that only granted names may be claimed.
    pub is_enforced: bool,
    /// The grants.
    pub grants: Vec<NameGrant>,
}

/// A claim that no grant covers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{tenant} may not claim {name} {rtype}; to allow it, add to access.names: {{ to: [\"{tenant}\"], domains: [{domain}]{types} }}"
)]
pub struct NotGranted {
    tenant: Box<Tenant>,
    name: Name,
    rtype: Rtype,
    domain: String,
    /// The list of types, if the default does not include the type.
    types: String,
}

impl NameGrant {
    fn is_to(&self, tenant: &Tenant) -> bool {
        self.to.iter().any(|to| to.includes(tenant))
    }
}

impl NameGrants {
    /// Checks that a tenant may claim records of a type at a name.
    pub fn check(&self, tenant: &Tenant, name: &Name, rtype: Rtype) -> Result<(), NotGranted> {
        let covers = |grant: &NameGrant| {
            grant.is_to(tenant)
                && grant.types.cover(name, rtype)
                && grant.domains.iter().any(|domain| name.is_within(domain))
        };
        if !self.is_enforced || self.grants.iter().any(covers) {
            return Ok(());
        }
        let mut types = Vec::new();
        if RecordTypes::SENSITIVE.contains(&rtype) || is_challenge(name, rtype) {
            types.push(rtype.to_string());
        }
        if is_challenge(name, rtype) {
            types.push(CHALLENGE.to_owned());
        }
        let types = if types.is_empty() { String::new() } else { format!(", types: [{}]", types.join(", ")) };
        let domain = name.to_string();
        let domain = domain.trim_end_matches('.').to_owned();
        Err(NotGranted { tenant: Box::new(tenant.clone()), name: name.clone(), rtype, domain, types })
    }

    /// Checks that a tenant may claim a steered name, which is answered with addresses of both families.
    pub fn check_steered(&self, tenant: &Tenant, name: &Name) -> Result<(), NotGranted> {
        self.check(tenant, name, Rtype::A).and_then(|()| self.check(tenant, name, Rtype::AAAA))
    }

    /// Returns the domains of a tenant; `None` if it may claim names in all.
    pub fn domains_of(&self, tenant: &Tenant) -> Option<BTreeSet<&Name>> {
        let own = self.grants.iter().filter(|grant| grant.is_to(tenant));
        self.is_enforced.then(|| own.flat_map(|grant| &grant.domains).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(text: &str) -> Tenant {
        text.parse().expect("a tenant")
    }

    fn grant(to: &str, domains: &[&str], listed: Option<&[Rtype]>, has_challenges: bool) -> NameGrant {
        NameGrant {
            to: to.split(' ').map(tenant).collect(),
            domains: domains.iter().map(|domain| domain.parse().expect("a name")).collect(),
            types: RecordTypes { listed: listed.map(|types| types.iter().copied().collect()), has_challenges },
        }
    }

    fn grants() -> NameGrants {
        NameGrants {
            is_enforced: true,
            grants: vec![
                grant("project:bank owner:east", &["bank.example"], None, false),
                grant("owner:east", &["sub.bank.example"], Some(&[Rtype::NS]), false),
                grant("owner:dns", &["bank.example"], Some(&[Rtype::TXT, Rtype::CNAME]), true),
                grant("project:*", &["all.example"], None, false),
                grant("owner:/", &["root.example", "a.example"], None, false),
                grant("cluster:eu1 namespace:*/shop", &["kube.example"], None, false),
            ],
        }
    }

    /// Each row: tenant, name, type, and whether it is granted.
    #[test]
    fn claim_needs_a_grant_of_its_domain_and_type() {
        let table = [
            ("project:bank", "bank.example", Rtype::A, true),
            ("project:bank", "a.b.BANK.example", Rtype::AAAA, true),
            ("project:bank", "*.bank.example", Rtype::A, true),
            ("project:bank", "example", Rtype::A, false),
            ("project:bank", "evilbank.example", Rtype::A, false),
            ("project:evil", "bank.example", Rtype::A, false),
            ("project:evil", "all.example", Rtype::A, true),
            ("owner:east", "all.example", Rtype::A, false),
            ("owner:bank", "bank.example", Rtype::A, false),
            ("owner:east", "bank.example", Rtype::NS, false),
            ("owner:east", "bank.example", Rtype::DS, false),
            ("owner:east", "bank.example", Rtype::DNAME, false),
            ("owner:east", "x.sub.bank.example", Rtype::NS, true),
            ("owner:east", "_acme-challenge.bank.example", Rtype::TXT, false),
            ("owner:east", "_ACME-challenge.bank.example", Rtype::CNAME, false),
            ("owner:east", "*.bank.example", Rtype::TXT, false),
            ("owner:east", "*.bank.example", Rtype::CNAME, false),
            ("owner:east", "a.bank.example", Rtype::TXT, true),
            ("owner:dns", "_acme-challenge.bank.example", Rtype::TXT, true),
            ("owner:dns", "bank.example", Rtype::A, false),
            ("owner:/", "x.root.example", Rtype::MX, true),
            ("namespace:eu1/any", "kube.example", Rtype::A, true),
            ("namespace:us1/shop", "kube.example", Rtype::A, true),
            ("namespace:us1/any", "kube.example", Rtype::A, false),
            ("namespace:eu1/any", "bank.example", Rtype::A, false),
        ];
        let grants = grants();
        for (who, name, rtype, is_granted) in table {
            let checked = grants.check(&tenant(who), &name.parse().unwrap(), rtype);
            assert_eq!(checked.is_ok(), is_granted, "{who} {name} {rtype}: {checked:?}");
            assert!(NameGrants::default().check(&tenant(who), &name.parse().unwrap(), rtype).is_ok());
        }
    }

    #[test]
    fn refusal_shows_the_line_to_add() {
        let shown = |name: &str, rtype| {
            let refused = grants().check(&tenant("project:evil"), &name.parse().unwrap(), rtype).unwrap_err();
            refused.to_string().split_once("access.names: ").expect("a line").1.to_owned()
        };
        assert_eq!(shown("shop.example", Rtype::A), "{ to: [\"project:evil\"], domains: [shop.example] }");
        assert_eq!(shown("b.example", Rtype::NS), "{ to: [\"project:evil\"], domains: [b.example], types: [NS] }");
        let challenge = shown("_acme-challenge.b.example", Rtype::TXT);
        assert!(challenge.ends_with(", types: [TXT, _acme-challenge] }"), "{challenge}");
    }

    #[test]
    fn domains_of_a_tenant_are_those_of_all_its_grants() {
        let grants = grants();
        let domains = |who: &str| grants.domains_of(&tenant(who)).map(|domains| domains.len());
        assert_eq!((domains("owner:east"), domains("owner:/"), domains("project:evil")), (Some(2), Some(2), Some(1)));
        assert_eq!(NameGrants::default().domains_of(&tenant("owner:east")), None);
        for text in ["owner", "owner:", "namespace:a", "project:a\nb"] {
            assert_eq!(text.parse::<Tenant>(), Err(()), "{text:?}");
        }
    }
}
