//! Paths of all families, and the objects at them.
//!
//! ```text
//! W  …/{app}/{version}/traffic-intent-set/inbound-intents/{n}                       ─┐
//!                                                                                    ├─► inbound/P/A/V/default/default/n
//! E  …/{app}/{version}/deployment-intent-groups/default/traffic-group-intents/       │
//!                                                    default/inbound-intents/{n}    ─┘
//! ```
//!
//! F  /v1/intents/inbound/{p}/{app}/{version}/default/default/{n}  is the same object, by its key.
//!
//! W is the family of ONAP's wiki, E is EMCO's, F is Fairway's own. W has no names for groups: its objects are in deployment intent group
//! `default` and traffic group `default`, so that each family reads what the other one wrote.

use std::sync::LazyLock;

use fairway_model::{
    IdError,
    intent::{Intent, IntentName, IntentSpec},
};

use fairway_store::objects::{Key, Kind, Prefix};

/// A parsed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentPath {
    /// Kind of the objects at the path.
    pub kind: Kind,
    /// Names in the key; for a collection, all but the last one.
    pub names: Vec<IntentName>,
    /// One object, or a collection.
    pub target: PathTarget,
}

/// One object, or a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathTarget {
    /// All objects of a kind with the same outer names.
    Collection,
    /// One object.
    Object,
    /// One object without a name of its own in the path, since there is one only. POST creates it.
    Singleton,
}

/// A family of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// EMCO.
    Emco,
    /// Fairway: by the key.
    Fairway,
    /// ONAP's wiki.
    Wiki,
}

/// Error of a path without object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A name that no object can have.
    #[error("{0}")]
    Name(#[from] IdError),
    /// Not a path of any family.
    #[error("unknown path; docs/reference/intents.md lists the paths")]
    Unknown,
}

impl IntentPath {
    /// Parses a path. A slash at its end is ignored.
    pub fn read(path: &str) -> Result<Self, PathError> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if let Some(key) = path.strip_prefix("/v1/intents/") {
            return Self::of_key(key);
        }
        let steps: Vec<&str> = path.strip_prefix("/v2/").ok_or(PathError::Unknown)?.split('/').collect();
        let steps = without_set(steps);
        templates().iter().find_map(|template| template.matches(&steps)).ok_or(PathError::Unknown)?
    }

    /// Returns the path of an intent by its key.
    pub fn of_key(key: &str) -> Result<Self, PathError> {
        let (word, names) = key.split_once('/').ok_or(PathError::Unknown)?;
        let kind = INTENT_KINDS.into_iter().find(|kind| kind.word() == word).ok_or(PathError::Unknown)?;
        let names = names.split('/').map(IntentName::new).collect::<Result<Vec<_>, _>>()?;
        if names.len() == kind.names() {
            Ok(Self { kind, names, target: PathTarget::Object })
        } else {
            Err(PathError::Unknown)
        }
    }

    /// Returns the key of the object; in a collection, that of the object with this name.
    pub fn key(&self, name: Option<&IntentName>) -> Key {
        let mut names: Vec<&str> = self.names.iter().map(IntentName::as_str).collect();
        names.extend(name.filter(|_| self.target == PathTarget::Collection).map(IntentName::as_str));
        Key::new(self.kind, &names).expect("a template has as many names as its kind, each a valid one")
    }

    /// Returns the prefix of the keys of a collection.
    pub fn prefix(&self) -> Prefix {
        let names: Vec<&str> = self.names.iter().map(IntentName::as_str).collect();
        Prefix::new(self.kind, &names).expect("a collection lacks the last name")
    }

    /// Returns an error if the body at this path has another name than the path.
    pub fn name_mismatch(&self, intent: &Intent) -> Option<String> {
        let mut in_body = vec![intent.metadata.name.as_str()];
        if let IntentSpec::CompositeApp(app) = &intent.spec {
            in_body.push(app.version.as_str());
        }
        let names: Vec<&str> = self.names.iter().map(IntentName::as_str).collect();
        if self.target != PathTarget::Object || names.ends_with(&in_body) {
            return None;
        }
        let in_path = names[names.len() - in_body.len()..].join("/");
        Some(format!("the name is {:?} in the body and {in_path:?} in the path; use one name", in_body.join("/")))
    }
}

/// Returns the project of a path; `None` for objects without project and unknown paths.
pub fn project_of(path: &str) -> Option<String> {
    let place =
        IntentPath::read(path).ok().or_else(|| history_of(path)).filter(|place| place.kind != Kind::Controller)?;
    place.names.first().map(|name| name.as_str().to_owned())
}

/// Returns the intent whose history is at a path: `/v1/intents/KEY/history`. No key ends with `history`, since its number of names is
/// fixed.
pub fn history_of(path: &str) -> Option<IntentPath> {
    IntentPath::of_key(path.strip_prefix("/v1/intents/")?.strip_suffix("/history")?).ok()
}

/// Returns the path of an object in a family. F has paths of intents only; W has none for objects in other groups than `default` and for
/// kinds of EMCO.
pub fn path_of(key: &Key, family: Family) -> Option<String> {
    if family == Family::Fairway {
        return INTENT_KINDS.contains(&key.kind()).then(|| format!("/v1/intents/{}", key.as_str()));
    }
    let names: Vec<&str> = key.names().collect();
    let template = templates().iter().find(|template| {
        template.kind == key.kind()
            && template.family.is_none_or(|of| of == family)
            && template.target != PathTarget::Collection
    })?;
    let in_defaults = names.get(3..5).is_some_and(|groups| groups == [DEFAULT; 2]);
    let hidden = template.family == Some(Family::Wiki) && template.kind.names() > 4;
    if hidden && !in_defaults {
        return None;
    }
    let mut names = names.iter().enumerate().filter(|(at, _)| !hidden || !(3..5).contains(at)).map(|(_, name)| *name);
    let steps: Option<Vec<&str>> =
        template.steps().map(|step| if step == "*" { names.next() } else { Some(step) }).collect();
    Some(format!("/v2/{}", steps?.join("/")))
}

/// The paths of the objects of a kind, or of its collections, with `*` for each name.
#[derive(Debug)]
pub struct PathTemplate {
    /// Family. `None`: W and E.
    pub family: Option<Family>,
    /// Kind of the objects at the paths.
    pub kind: Kind,
    /// One object, or a collection.
    pub target: PathTarget,
    /// The paths, without `/v2/`.
    path: String,
}

/// Returns the template of every path below `/v2`: of each collection, and of its objects.
pub fn templates() -> &'static [PathTemplate] {
    static TEMPLATES: LazyLock<Vec<PathTemplate>> = LazyLock::new(|| {
        let (wiki, emco) = (Some(Family::Wiki), Some(Family::Emco));
        let app = "projects/*/composite-apps/*/*";
        let set = format!("{app}/traffic-intent-set");
        let groups = format!("{app}/deployment-intent-groups/*");
        let group = format!("{groups}/traffic-group-intents/*");
        let intents = |family, above: &str| INTENTS.map(|(path, kind)| (family, format!("{above}/{path}"), kind));
        let mut objects = vec![
            (None, "projects/*".to_owned(), Kind::Project),
            (None, "projects/*/dns-update-records/*".to_owned(), Kind::DnsUpdateRecord),
            (None, "dtc-controllers/*".to_owned(), Kind::Controller),
        ];
        objects.extend(intents(wiki, &set));
        objects.extend([
            // After the intents, since their words are not names of sets.
            (wiki, format!("{set}/*"), Kind::TrafficSet),
            // After the current path: older paths of the same records.
            (wiki, format!("{set}/*/dnsproviders/*"), Kind::DnsUpdateRecord),
            (emco, format!("{group}/dnsproviders/*"), Kind::DnsUpdateRecord),
            (emco, groups, Kind::DeploymentGroup),
            (emco, group.clone(), Kind::TrafficGroup),
        ]);
        objects.extend(intents(emco, &group));
        objects.push((emco, app.to_owned(), Kind::CompositeApp));
        objects.into_iter().flat_map(|(family, path, kind)| with_collection(family, path, kind)).collect()
    });
    &TEMPLATES
}

/// Returns the templates of objects and of their collection. A composite app has two names, and its collection neither of them.
fn with_collection(family: Option<Family>, path: String, kind: Kind) -> Vec<PathTemplate> {
    let template = |path: &str, target| PathTemplate { family, kind, target, path: path.to_owned() };
    match path.trim_end_matches("/*") {
        whole if whole == path => vec![template(whole, PathTarget::Singleton)],
        above => vec![template(above, PathTarget::Collection), template(&path, PathTarget::Object)],
    }
}

/// Paths of intents and of the objects below them, in both families.
const INTENTS: [(&str, Kind); 7] = [
    ("inbound-intents/*", Kind::Inbound),
    ("inbound-intents/*/clients/*", Kind::Client),
    ("inbound-intents/*/clients/*/access-points/*", Kind::AccessPoint),
    ("outbound-intents/*", Kind::Outbound),
    ("outbound-intents/*/server", Kind::OutboundServer),
    ("compound-intents/*", Kind::Compound),
    ("compound-intents/*/inbound-intents/*", Kind::InboundOfCompound),
];

/// True if a text is a word of the paths, so that it cannot be the name of a set.
pub(crate) fn is_collection_word(text: &str) -> bool {
    ["inbound-intents", "outbound-intents", "compound-intents"].iter().any(|word| is_word(word, text))
}

/// Removes the set that older W paths have before the intents: `…/{set}/inbound-intent/…`.
///
/// Sets refer to intents, which are not below them.
fn without_set(mut steps: Vec<&str>) -> Vec<&str> {
    // The five steps before are projects, P, composite-apps, A, V.
    let Some(after) = steps.get(5..) else { return steps };
    let is_set_word = |at: usize| after.get(at).is_some_and(|step| is_word("traffic-intent-sets", step));
    let is_intents = |at: usize| after.get(at).is_some_and(|step| is_collection_word(step));
    let is_name = |at: usize| after.get(at).is_some_and(|step| IntentName::new(step).is_ok());
    if is_set_word(0) && is_name(1) && !is_intents(1) && is_intents(2) {
        steps.remove(6);
    } else if is_name(0) && !is_set_word(0) && is_intents(1) {
        steps[5] = "traffic-intent-set";
    }
    steps
}

impl PathTemplate {
    fn steps(&self) -> impl Iterator<Item = &str> {
        self.path.split('/')
    }

    /// Returns the path with parameters, each named after the step before it: `/v2/projects/{project}`.
    pub fn with_parameters(&self) -> String {
        let mut before = "";
        let mut steps = vec![String::new(), "v2".to_owned()];
        for step in self.steps() {
            steps.push(match step {
                // A composite app has two names.
                "*" if before == "*" => "{version}".to_owned(),
                "*" => format!("{{{}}}", camel_case(before.trim_end_matches('s'))),
                word => word.to_owned(),
            });
            before = step;
        }
        steps.join("/")
    }

    fn matches(&self, steps: &[&str]) -> Option<Result<IntentPath, PathError>> {
        if self.steps().count() != steps.len() {
            return None;
        }
        let fits = |(wanted, step): (&str, &&str)| wanted == "*" || is_word(wanted, step);
        if !self.steps().zip(steps).all(fits) {
            return None;
        }
        let given = self.steps().zip(steps).filter(|(wanted, _)| *wanted == "*").map(|(_, step)| *step);
        let mut names: Vec<&str> = given.collect();
        if let Some(error) = names.iter().find_map(|name| IntentName::new(name).err()) {
            return Some(Err(error.into()));
        }
        if self.family == Some(Family::Wiki) && self.kind.names() > 4 {
            names.splice(3..3, [DEFAULT; 2]);
        }
        if self.kind == Kind::DnsUpdateRecord {
            // It belongs to the project, whatever other objects are in the path.
            names.drain(1..names.len() - usize::from(self.target == PathTarget::Object));
        }
        let names: Result<Vec<_>, _> = names.into_iter().map(IntentName::new).collect();
        Some(names.map(|names| IntentPath { kind: self.kind, names, target: self.target }).map_err(PathError::from))
    }
}

/// Converts `traffic-group-intent` to `trafficGroupIntent`.
fn camel_case(words: &str) -> String {
    let mut words = words.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| all + &word[..1].to_ascii_uppercase() + &word[1..])
}

/// True if a step is this word, with or without the plural `s`: the wiki has both.
fn is_word(word: &str, step: &str) -> bool {
    word.trim_end_matches('s') == step.trim_end_matches('s')
        // A typing error of the wiki.
        || word == "compound-intents" && step.trim_end_matches('s') == "compund-intent"
}

/// Kinds of `/v1/intents`: exposed and used services. In key order.
pub const INTENT_KINDS: [Kind; 4] = [Kind::InboundOfCompound, Kind::Compound, Kind::Inbound, Kind::Outbound];

/// Hint of errors about keys.
pub const KEY_FORM: &str =
    "write inbound/PROJECT/APP/VERSION/GROUP/TRAFFIC-GROUP/NAME, or compound/…, compound-inbound/…, outbound/…";

/// Name of the groups that W has no names for.
pub(crate) const DEFAULT: &str = "default";

#[cfg(test)]
mod tests {
    use super::*;

    const W: &str = "/v2/projects/p/composite-apps/blue-app/v1";
    const E: &str =
        "/v2/projects/p/composite-apps/blue-app/v1/deployment-intent-groups/default/traffic-group-intents/default";

    fn read(path: &str) -> (Kind, String, PathTarget) {
        let place = IntentPath::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let names = place.names.iter().map(IntentName::as_str).collect::<Vec<_>>().join("/");
        (place.kind, names, place.target)
    }

    #[test]
    fn families_have_paths_of_the_same_objects() {
        for (below, kind, names, target) in [
            ("inbound-intents", Kind::Inbound, "", PathTarget::Collection),
            ("inbound-intents/n", Kind::Inbound, "/n", PathTarget::Object),
            ("inbound-intents/n/clients", Kind::Client, "/n", PathTarget::Collection),
            ("inbound-intents/n/clients/c", Kind::Client, "/n/c", PathTarget::Object),
            ("inbound-intents/n/clients/c/access-points", Kind::AccessPoint, "/n/c", PathTarget::Collection),
            ("inbound-intents/n/clients/c/access-points/a", Kind::AccessPoint, "/n/c/a", PathTarget::Object),
            ("outbound-intents", Kind::Outbound, "", PathTarget::Collection),
            ("outbound-intents/o", Kind::Outbound, "/o", PathTarget::Object),
            ("outbound-intents/o/server", Kind::OutboundServer, "/o", PathTarget::Singleton),
            ("compound-intents", Kind::Compound, "", PathTarget::Collection),
            ("compound-intents/c", Kind::Compound, "/c", PathTarget::Object),
            ("compound-intents/c/inbound-intents", Kind::InboundOfCompound, "/c", PathTarget::Collection),
            ("compound-intents/c/inbound-intents/n", Kind::InboundOfCompound, "/c/n", PathTarget::Object),
        ] {
            let expected = (kind, format!("p/blue-app/v1/default/default{names}"), target);
            assert_eq!(read(&format!("{E}/{below}")), expected);
            let forms = ["traffic-intent-set", "traffic-intent-sets", "traffic-intent-set/s", "s"];
            for form in forms {
                assert_eq!(read(&format!("{W}/{form}/{below}")), expected, "{form}");
                assert_eq!(read(&format!("{W}/{form}/{below}/")), expected, "{form}");
            }
            let singular = below.replace("intents", "intent").replace("compound", "compund");
            assert_eq!(read(&format!("{W}/s/{singular}")), expected);
        }
    }

    #[test]
    fn keys_of_intents_are_paths_and_other_keys_are_not() {
        for key in ["inbound/p/a/v1/default/default/n", "compound-inbound/p/a/v1/d/t/c/n", "outbound/p/a/v1/d/t/o"] {
            let place = IntentPath::read(&format!("/v1/intents/{key}/")).unwrap();
            assert_eq!((place.key(None).as_str(), place.target), (key, PathTarget::Object));
            assert_eq!(path_of(&place.key(None), Family::Fairway), Some(format!("/v1/intents/{key}")));
            assert_eq!(project_of(&format!("/v1/intents/{key}")).as_deref(), Some("p"));
        }
        for key in ["inbound/p/a/v1/d/n", "pool/shop", "receipt/a", "inbound", "client/p/a/v1/d/t/n/c"] {
            assert_eq!(IntentPath::read(&format!("/v1/intents/{key}")), Err(PathError::Unknown), "{key}");
        }
        for name in ["%70", "..", "a b", ""] {
            let read = IntentPath::read(&format!("/v1/intents/inbound/{name}/a/v1/d/t/n"));
            assert!(matches!(read, Err(PathError::Name(_))), "{name}: {read:?}");
        }
    }

    #[test]
    fn paths_of_one_family_are_parsed() {
        for (path, kind, names, target) in [
            ("/v2/projects", Kind::Project, "", PathTarget::Collection),
            ("/v2/projects/p/", Kind::Project, "p", PathTarget::Object),
            ("/v2/project/p/dns-update-records", Kind::DnsUpdateRecord, "p", PathTarget::Collection),
            ("/v2/projects/p/dns-update-records/r", Kind::DnsUpdateRecord, "p/r", PathTarget::Object),
            (
                "/v2/projects/p/composite-apps/a/v1/traffic-intent-sets/s/dnsproviders",
                Kind::DnsUpdateRecord,
                "p",
                PathTarget::Collection,
            ),
            (
                "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/d/traffic-group-intents/t/dnsproviders/r",
                Kind::DnsUpdateRecord,
                "p/r",
                PathTarget::Object,
            ),
            ("/v2/dtc-controllers/its", Kind::Controller, "its", PathTarget::Object),
            ("/v2/projects/p/composite-apps", Kind::CompositeApp, "p", PathTarget::Collection),
            ("/v2/projects/p/composite-apps/a/v1", Kind::CompositeApp, "p/a/v1", PathTarget::Object),
            (
                "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/d",
                Kind::DeploymentGroup,
                "p/a/v1/d",
                PathTarget::Object,
            ),
            (
                "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/d/traffic-group-intent",
                Kind::TrafficGroup,
                "p/a/v1/d",
                PathTarget::Collection,
            ),
            (
                "/v2/projects/p/composite-apps/a/v1/traffic-intent-set",
                Kind::TrafficSet,
                "p/a/v1",
                PathTarget::Collection,
            ),
            (
                "/v2/projects/p/composite-apps/a/v1/traffic-intent-sets/s",
                Kind::TrafficSet,
                "p/a/v1/s",
                PathTarget::Object,
            ),
        ] {
            assert_eq!(read(path), (kind, names.to_owned(), target), "{path}");
        }
    }

    #[test]
    fn every_template_is_parsed_to_its_kind() {
        for template in templates() {
            let form = template.with_parameters();
            let path = form.split('/').map(|step| if step.starts_with('{') { "x" } else { step }).collect::<Vec<_>>();
            let place = IntentPath::read(&path.join("/")).unwrap_or_else(|error| panic!("{form}: {error}"));
            assert_eq!((place.kind, place.target), (template.kind, template.target), "{form}");
            let names: Vec<&str> = form.split('/').filter(|step| step.starts_with('{')).collect();
            let different: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(names.len(), different.len(), "{form} has two parameters with one name");
        }
    }

    #[test]
    fn path_of_an_object_is_parsed_to_its_key() {
        for kind in Kind::ALL {
            let names = ["p", "a", "v", "default", "default", "x", "y", "z"];
            let key = Key::new(*kind, &names[..kind.names()]).unwrap();
            for family in [Family::Wiki, Family::Emco] {
                let Some(path) = path_of(&key, family) else { continue };
                assert_eq!(IntentPath::read(&path).map(|place| place.key(None)), Ok(key.clone()), "{path}");
            }
        }
        let elsewhere = Key::new(Kind::Inbound, &["p", "a", "v", "blue", "default", "x"]).unwrap();
        assert_eq!(path_of(&elsewhere, Family::Wiki), None);
        assert!(path_of(&elsewhere, Family::Emco).unwrap().contains("/blue/"));
    }

    #[test]
    fn unknown_path_is_rejected() {
        for path in [
            "/",
            "/v2",
            "/v2/",
            "/v2/projects/p/composite-apps/a",
            "/v2/projects/p/composite-apps/a/v/other",
            "/v2/projects/p/composite-apps/a/v/traffic-intent-set//inbound-intents",
            "/v2/projects/p/composite-apps/a/v//inbound-intents/n",
            "/v1/projects",
        ] {
            assert_eq!(IntentPath::read(path), Err(PathError::Unknown), "{path}");
        }
        for path in ["/v2/projects/..", "/v2/projects/%2e", "/v2/projects/", "/v2/projects//dns-update-records"] {
            assert!(
                IntentPath::read(path).is_ok_and(|place| place.kind == Kind::Project)
                    || matches!(IntentPath::read(path), Err(PathError::Name(_))),
                "{path}"
            );
        }
    }
}
