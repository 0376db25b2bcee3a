//! The permission that each route requires. `access` decides if a caller has it.

use std::collections::HashMap;

use axum::{
    extract::{MatchedPath, Request},
    http::Method,
};

use super::{
    route::Route,
    routes::{INTENT_KEYS, INTENT_PATHS},
};
use fairway_access::{RequiredPermission, Verb, Verbs};
use fairway_intents::{Place, project_of};
use fairway_store::objects::Kind;

/// The permission that a route requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
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
    /// The permission of a path that leads to intents. `kind` is unknown where the path leads nowhere.
    pub(super) fn of_intent(method: &Method, kind: Option<Kind>) -> Self {
        let verbs = Verbs::from(match *method {
            Method::GET | Method::HEAD => Verb::Read,
            Method::DELETE => Verb::Delete,
            _ => Verb::Write,
        });
        // Such a record makes the server itself connect to the address in it.
        let connects = kind == Some(Kind::DnsUpdateRecord) && !method.is_safe();
        Self::Project(if connects { verbs.with(Verb::Operate) } else { verbs })
    }

    /// The verbs that every call requires; none for a route that is open.
    pub(super) fn verbs(self) -> Option<Verbs> {
        match self {
            Self::Open => None,
            Self::Apply => Some(Verb::Write.into()),
            Self::Project(verbs) | Self::ProjectOfQuery(verbs) | Self::Server(verbs) => Some(verbs),
        }
    }

    /// The permission that one request requires; none if everybody may make it.
    fn of_request(self, path: &str, query: &str) -> Option<RequiredPermission> {
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

/// The permission of every route, by path and method.
#[derive(Debug)]
pub(super) struct Permissions(HashMap<String, HashMap<Method, Permission>>);

impl Permissions {
    /// The permissions of these routes.
    pub(super) fn of(routes: &[Route]) -> Self {
        let mut all: HashMap<String, HashMap<Method, Permission>> = HashMap::new();
        for route in routes {
            all.entry(route.path.to_string()).or_default().insert(route.method.clone(), route.permission);
        }
        Self(all)
    }

    /// The permission that a request requires; none if everybody may make it. A request that matches no route requires every verb, so
    /// that a mistake in the table closes a route instead of opening it.
    pub(super) fn required(&self, request: &Request) -> Option<RequiredPermission> {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        // The router answers HEAD where it answers GET.
        let method = if *request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let permission = match request.extensions().get().map(MatchedPath::as_str) {
            Some(INTENT_PATHS | INTENT_KEYS) => {
                Some(Permission::of_intent(method, Place::read(path).ok().map(|place| place.kind)))
            }
            Some(matched) => self.0.get(matched).and_then(|methods| methods.get(method)).copied(),
            None => None,
        };
        permission.unwrap_or(Permission::Server(Verbs::ALL)).of_request(path, query)
    }
}

/// The one project that a query asks for. None if the query could be read in two ways: then a grant for all projects is required.
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

#[cfg(test)]
mod tests;
