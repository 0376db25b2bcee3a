//! Compares the tables of routes in the manual with the table of routes.

use std::{fmt::Write, fs, path::Path};

use super::{route::Route, routes};

#[test]
fn route_tables_of_the_manual_are_current() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for page in ["api.md", "reference/intents.md"] {
        let path = docs.join(page);
        let text = fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(MARKER).expect("a page with a table of routes");
        let (tags, rest) = rest.split_once(" -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        let expected = format!("{before}{MARKER}{tags} -->\n{}<!-- end -->{after}", table(tags));
        if text != expected && std::env::var_os("FAIRWAY_UPDATE_DOCS").is_some() {
            fs::write(&path, expected).unwrap();
            continue;
        }
        assert!(text == expected, "{page} has an old table of routes; run this test with FAIRWAY_UPDATE_DOCS=1");
    }
}

/// Returns a Markdown table of the routes with these tags.
fn table(tags: &str) -> String {
    let mut text = "\n| method and path | requires | description | `operationId` |\n|---|---|---|---|\n".to_owned();
    let wanted = |route: &Route| tags.split(' ').any(|tag| tag == route.tag);
    for route in routes::table().iter().filter(|route| wanted(route)) {
        let Route { method, path, summary, description, id, .. } = route;
        let requires = route.permission.verbs().map_or_else(|| "nothing".to_owned(), |verbs| verbs.to_string());
        let requires = if route.is_local { "control socket" } else { &requires };
        let about =
            if description.is_empty() { String::new() } else { format!(". {}", description.trim_end_matches('.')) };
        writeln!(text, "| `{method} {path}` | {requires} | {summary}{about} | `{id}` |").unwrap();
    }
    text.push('\n');
    text
}

const MARKER: &str = "<!-- routes: ";
