//! The permission that a route requires. The crate `access` decides if a caller has it.

use axum::http::Method;

use fairway_access::{RequiredPermission, Verb, Verbs};
use fairway_intents::project_of;
use fairway_store::objects::Kind;

/// The permission that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// None: anybody may call it.
    Open,
    /// `write` in all projects; with `?prune=true` also `delete`.
    Apply,
    /// These verbs in the project of the path, or in all projects if the path names none.
    Project(Verbs),
    /// These verbs in the project of the query, or in all projects if the query names none.
    ProjectOfQuery(Verbs),
    /// These verbs in all projects.
    Server(Verbs),
}

impl From<Verb> for Permission {
    fn from(verb: Verb) -> Self {
        Self::Server(verb.into())
    }
}

impl Permission {
    /// Returns the permission of a path that leads to intents. `kind` is none if the path leads nowhere.
    pub(crate) fn of_intent(method: &Method, kind: Option<Kind>) -> Self {
        let verbs = Verbs::from(match *method {
            Method::GET | Method::HEAD => Verb::Read,
            Method::DELETE => Verb::Delete,
            _ => Verb::Write,
        });
        // Such a record makes the server itself connect to the address in it.
        let connects = kind == Some(Kind::DnsUpdateRecord) && !method.is_safe();
        Self::Project(if connects { verbs.with(Verb::Operate) } else { verbs })
    }

    /// Returns the verbs that every call requires; none for an open route.
    pub(crate) fn verbs(self) -> Option<Verbs> {
        match self {
            Self::Open => None,
            Self::Apply => Some(Verb::Write.into()),
            Self::Project(verbs) | Self::ProjectOfQuery(verbs) | Self::Server(verbs) => Some(verbs),
        }
    }

    /// Returns the permission that one request requires; none if everybody may make it.
    pub(crate) fn of_request(self, path: &str, query: &str) -> Option<RequiredPermission> {
        let project = match self {
            Self::Project(_) => project_of(path),
            Self::ProjectOfQuery(_) => project_in(query),
            Self::Apply | Self::Open | Self::Server(_) => None,
        };
        let mut verbs = self.verbs()?;
        if self == Self::Apply && is_set(query, "prune") {
            verbs = verbs.with(Verb::Delete);
        }
        Some(RequiredPermission { verbs, project })
    }
}

/// Returns the one project that a query names. None if the query could be read in two ways: then a grant for all projects is required.
fn project_in(query: &str) -> Option<String> {
    let pairs: Vec<_> = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    let is_escaped = |text: &str| text.contains(['%', '+']);
    if pairs.iter().any(|(name, _)| is_escaped(name)) {
        return None;
    }
    match pairs.iter().filter(|(name, _)| *name == "project").collect::<Vec<_>>()[..] {
        [(_, project)] if !project.is_empty() && !is_escaped(project) => Some((*project).to_owned()),
        _ => None,
    }
}

/// True if a query may set a parameter to something else than `false`, however its name and value are escaped.
fn is_set(query: &str, parameter: &str) -> bool {
    query.split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name == parameter || name.contains(['%', '+'])) && value != "false"
    })
}
