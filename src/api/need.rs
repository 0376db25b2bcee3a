//! What each request takes: the verbs, and the project that it is about.
//!
//! Paths that nobody wrote down here take every verb, so that a route that is forgotten is closed, not open.

use fairway_access::{Need, Verb, Verbs};

/// What a request takes; none where it is open to all: whether the server lives and is ready, what there is to ask,
/// and the files of the page, which are the same for all and hold no data.
pub(super) fn need(method: &str, path: &str, query: &str) -> Option<Need> {
    let of_server = |verbs: Verbs| Some(Need { verbs, project: None });
    let sees = matches!(method, "GET" | "HEAD");
    let steps: Vec<&str> = path.trim_matches('/').split('/').collect();
    match (&steps[..], sees) {
        ([""] | ["page", ..] | ["healthz" | "readyz" | "openapi.json"], true) => None,
        (["version" | "metrics"] | ["v1", "state" | "explain" | "watch"], true) => of_server(Verb::Observe.into()),
        (["v1", "publishing"] | ["v1", "publishing", _, "plan"], true) => of_server(Verb::Observe.into()),
        (["v1", "publishing", _, "apply" | "take"], false) => of_server(Verb::Operate.into()),
        (["v1", "reload"], false) => of_server(Verb::Operate.into()),
        (["v1", "overrides", ..], false) => of_server(Verb::Force.into()),
        (["v1", "load" | "latency", _], false) => of_server(Verb::Report.into()),
        (["v1", "apply"], false) if is_set(query, "prune") => of_server(Verbs::from(Verb::Write).with(Verb::Delete)),
        (["v1", "apply"], false) => of_server(Verb::Write.into()),
        (["v1", "clusters" | "monitors" | "names" | "pools" | "records", ..], _) => of_server(of_object(method).into()),
        (["v1", "intents"], true) => Some(Need { verbs: Verb::Read.into(), project: project_asked(query) }),
        (["v1", "intents", ..], _) => {
            Some(Need { verbs: of_object(method).into(), project: fairway_intents::project_of(path) })
        }
        (["v1", "contributions"], _) => of_server(of_object(method).into()),
        (["v2", ..], _) => {
            let verbs = Verbs::from(of_object(method));
            // The server itself then goes where the record says.
            let reaches_out = !sees && fairway_intents::declares_updates(path);
            let verbs = if reaches_out { verbs.with(Verb::Operate) } else { verbs };
            Some(Need { verbs, project: fairway_intents::project_of(path) })
        }
        _ => of_server(Verbs::ALL),
    }
}

fn of_object(method: &str) -> Verb {
    match method {
        "GET" | "HEAD" => Verb::Read,
        "DELETE" => Verb::Delete,
        _ => Verb::Write,
    }
}

/// The one project that a query asks for; none where that is not beyond doubt, which takes a grant for all.
fn project_asked(query: &str) -> Option<String> {
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

/// Whether a query may set a parameter to something else than `false`, however its name and value are escaped.
fn is_set(query: &str, parameter: &str) -> bool {
    query.split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name == parameter || name.contains(['%', '+'])) && value != "false"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a request takes, in words.
    fn told(request: &str) -> String {
        let (method, rest) = request.split_once(' ').expect("a request");
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        need(method, path, query).map_or_else(
            || "open".to_owned(),
            |need| {
                let verbs = if need.verbs == Verbs::ALL { "all".to_owned() } else { need.verbs.to_string() };
                match need.project {
                    Some(project) => format!("{verbs} in {project}"),
                    None => verbs,
                }
            },
        )
    }

    #[test]
    fn each_request_takes_its_verb_in_its_project() {
        for (request, wanted) in [
            ("GET /healthz", "open"),
            ("HEAD /readyz", "open"),
            ("GET /", "open"),
            ("GET /page/app.js", "open"),
            ("GET /openapi.json", "open"),
            ("POST /healthz", "all"),
            ("GET /metrics", "observe"),
            ("GET /version", "observe"),
            ("GET /v1/state", "observe"),
            ("GET /v1/explain?name=a", "observe"),
            ("GET /v1/watch", "observe"),
            ("GET /v1/publishing", "observe"),
            ("GET /v1/publishing/bind/plan", "observe"),
            ("POST /v1/publishing/bind/apply", "operate"),
            ("POST /v1/publishing/bind/take", "operate"),
            ("POST /v1/publishing/bind/plan", "all"),
            ("POST /v1/reload", "operate"),
            ("POST /v1/overrides", "force"),
            ("DELETE /v1/overrides/1a2b", "force"),
            ("PUT /v1/load/eu1", "report"),
            ("PUT /v1/latency/rtt", "report"),
            ("POST /v1/apply", "write"),
            ("POST /v1/apply?prune=false&dryRun=true", "write"),
            ("POST /v1/apply?dryRun=false&prune=true", "delete, write"),
            ("POST /v1/apply?%70rune=true", "delete, write"),
            ("POST /v1/apply?prune=%74rue", "delete, write"),
            ("GET /v1/pools", "read"),
            ("GET /v1/pools/shop/history", "read"),
            ("POST /v1/pools", "write"),
            ("PUT /v1/names/a.example", "write"),
            ("PATCH /v1/names/a.example", "write"),
            ("DELETE /v1/clusters/eu1", "delete"),
            ("GET /v2/projects", "read"),
            ("POST /v2/projects", "write"),
            ("GET /v2/projects/shop", "read in shop"),
            ("DELETE /v2/projects/shop/", "delete in shop"),
            ("PUT /v2/projects/shop/composite-apps/a/v1", "write in shop"),
            ("GET /v2/project/shop/dns-update-records", "read in shop"),
            ("POST /v2/project/shop/dns-update-records", "operate, write in shop"),
            ("PUT /v2/projects/shop/dns-update-records/bind/?dryRun=true", "operate, write in shop"),
            ("DELETE /v2/projects/shop/dns-update-records/bind", "delete, operate in shop"),
            ("POST /v2/projects/shop/composite-apps/a/v1/traffic-intent-sets/s/dnsproviders", "operate, write in shop"),
            ("PUT /v2/dtc-controllers/its", "write"),
            ("PUT /v2/projects/shop/../pay", "write"),
            ("PUT /v2/projects/%73hop", "write"),
            ("PUT /v2//projects/shop", "write"),
            ("GET /v1/contributions", "read"),
            ("DELETE /v1/contributions?owner=a", "delete"),
            ("GET /v1/objects", "all"),
            ("POST /v1/stop", "all"),
            ("GET /v1/../metrics", "all"),
            ("GET /elsewhere", "all"),
        ] {
            assert_eq!(told(request), wanted, "{request}");
        }
    }

    #[test]
    fn intents_take_verbs_in_the_project_that_is_beyond_doubt() {
        for (request, wanted) in [
            ("GET /v1/intents", "read"),
            ("GET /v1/intents?project=shop&after=a%2Fb", "read in shop"),
            ("GET /v1/intents?project=", "read"),
            ("GET /v1/intents?project=sh%6fp", "read"),
            ("GET /v1/intents?project=shop&project=pay", "read"),
            ("GET /v1/intents?%70roject=pay&project=shop", "read"),
            ("POST /v1/intents", "write"),
            ("GET /v1/intents/inbound/shop/a/v1/d/t/n", "read in shop"),
            ("GET /v1/intents/inbound/shop/a/v1/d/t/n/history", "read in shop"),
            ("GET /v1/intents/compound-inbound/shop/a/v1/d/t/c/n/history", "read in shop"),
            ("GET /v1/intents/inbound/shop/a/v1/d/t/n/m/history", "read"),
            ("PUT /v1/intents/compound/shop/a/v1/d/t/n?dryRun=true", "write in shop"),
            ("DELETE /v1/intents/inbound/shop/a/v1/d/t/n", "delete in shop"),
            ("PUT /v1/intents/inbound/%73hop/a/v1/d/t/n", "write"),
            ("POST /v1/intents?project=shop", "write"),
        ] {
            assert_eq!(told(request), wanted, "{request}");
        }
    }
}
