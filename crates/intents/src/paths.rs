//! Paths of both families, and the objects they lead to.
//!
//! ```text
//! W  …/{app}/{version}/traffic-intent-set/inbound-intents/{n}                       ─┐
//!                                                                                    ├─► inbound/P/A/V/default/default/n
//! E  …/{app}/{version}/deployment-intent-groups/default/traffic-group-intents/       │
//!                                                    default/inbound-intents/{n}    ─┘
//! ```
//!
//! F  /v1/intents/inbound/{p}/{app}/{version}/default/default/{n}  leads there, too: by the key itself.
//!
//! W is the wiki's family (ONAP), E is EMCO's, F is Fairway's own. What W has no names for lies in the deployment-intent-group `default`, traffic
//! group `default`, so that each family reads what the other wrote.

use fairway_model::intent::{IntentName, IntentNameError};

use fairway_store::objects::{Key, Kind, Prefix};

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What is there.
    pub kind: Kind,
    /// Names that lead to it; for a collection all but the last.
    pub names: Vec<IntentName>,
    /// Whether it is one object, or all objects of the kind below those names.
    pub what: What,
}

/// One or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All objects of a kind below the same names.
    Collection,
    /// One object.
    Object,
    /// One object that has no name of its own in the path, since there is one only: POST makes it.
    Only,
}

/// A family of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// EMCO's.
    Emco,
    /// Fairway's own, by the key.
    Fairway,
    /// That of ONAP's wiki.
    Wiki,
}

/// Why a path leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A name in it that no object can have.
    #[error("{0}")]
    Name(#[from] IntentNameError),
    /// No path of either family.
    #[error("no object is at such a path; see docs/intents.md for the paths there are")]
    Unknown,
}

impl Place {
    /// Reads a path; a slash at its end does not count.
    pub fn read(path: &str) -> Result<Self, PathError> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if let Some(key) = path.strip_prefix("/v1/intents/") {
            return Self::of_key(key);
        }
        let steps: Vec<&str> = path.strip_prefix("/v2/").ok_or(PathError::Unknown)?.split('/').collect();
        let steps = without_set(steps);
        TEMPLATES.iter().find_map(|template| template.matches(&steps)).ok_or(PathError::Unknown)?
    }

    /// The place of an intent by its key.
    pub fn of_key(key: &str) -> Result<Self, PathError> {
        let (word, names) = key.split_once('/').ok_or(PathError::Unknown)?;
        let kind = INTENT_KINDS.into_iter().find(|kind| kind.word() == word).ok_or(PathError::Unknown)?;
        let names = names.split('/').map(IntentName::new).collect::<Result<Vec<_>, _>>()?;
        match names.len() == kind.names() {
            true => Ok(Self { kind, names, what: What::Object }),
            false => Err(PathError::Unknown),
        }
    }

    /// The key of the object; in a collection, of the one with this name.
    pub fn key(&self, name: Option<&IntentName>) -> Key {
        let mut names: Vec<&str> = self.names.iter().map(IntentName::as_str).collect();
        names.extend(name.filter(|_| self.what == What::Collection).map(IntentName::as_str));
        Key::new(self.kind, &names).expect("a template has as many names as its kind, each a valid one")
    }

    /// What the keys of a collection begin with.
    pub fn prefix(&self) -> Prefix {
        let names: Vec<&str> = self.names.iter().map(IntentName::as_str).collect();
        Prefix::new(self.kind, &names).expect("a collection lacks the last name")
    }
}

/// The project that a path is about; none for what is in none, and where nothing can be.
pub fn project_of(path: &str) -> Option<String> {
    let place = Place::read(path).ok().or_else(|| history_of(path)).filter(|place| place.kind != Kind::Controller)?;
    place.names.first().map(|name| name.as_str().to_owned())
}

/// The intent whose history is at a path: `/v1/intents/KEY/history`. A key has as many names as its kind, so none ends so.
pub fn history_of(path: &str) -> Option<Place> {
    Place::of_key(path.strip_prefix("/v1/intents/")?.strip_suffix("/history")?).ok()
}

/// The path of an object in a family; F has one for intents; W has none for what lies in other groups than `default`, and for EMCO's own kinds.
pub fn path_of(key: &Key, family: Family) -> Option<String> {
    if family == Family::Fairway {
        return INTENT_KINDS.contains(&key.kind()).then(|| format!("/v1/intents/{}", key.as_str()));
    }
    let names: Vec<&str> = key.names().collect();
    let template = TEMPLATES.iter().find(|template| {
        template.kind == key.kind()
            && template.family.is_none_or(|of| of == family)
            && template.what != What::Collection
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

/// One form of path, as a router or a document writes it.
#[derive(Clone, Debug)]
pub struct Form {
    /// The path, with names for its parameters: `/v2/projects/{project}`.
    pub path: String,
    /// The family it belongs to; none if both have it.
    pub family: Option<Family>,
    /// The kind of object that it leads to.
    pub kind: Kind,
    /// One object or all.
    pub what: What,
}

/// Returns every form of path below `/v2`.
pub fn forms() -> impl Iterator<Item = Form> {
    let form = |template: &Template| {
        let Template { family, kind, what, .. } = *template;
        Form { path: template.shown(), family, kind, what }
    };
    TEMPLATES.iter().map(form)
}

/// Whether a text is a word of the paths, and cannot name a set.
pub(crate) fn is_collection_word(text: &str) -> bool {
    ["inbound-intents", "outbound-intents", "compound-intents"].iter().any(|word| is_word(word, text))
}

/// Leaves out the set that older W paths have before the intents: `…/{set}/inbound-intent/…`.
///
/// Sets name intents, they do not hold them.
fn without_set(mut steps: Vec<&str>) -> Vec<&str> {
    // projects, P, composite-apps, A, V, and what follows.
    let Some(after) = steps.get(5..) else { return steps };
    let is_set_word = |at: usize| after.get(at).is_some_and(|step| is_word("traffic-intent-sets", step));
    let is_intents = |at: usize| after.get(at).is_some_and(|step| is_collection_word(step));
    if is_set_word(0) && !is_intents(1) && is_intents(2) {
        steps.remove(6);
    } else if !is_set_word(0) && is_intents(1) {
        steps[5] = "traffic-intent-set";
    }
    steps
}

/// A form of path. `*` stands for a name.
struct Template {
    /// The family it belongs to; none: both.
    family: Option<Family>,
    path: &'static str,
    kind: Kind,
    what: What,
}

impl Template {
    fn steps(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.path.split('/')
    }

    /// The path, with each name called after what it is the name of: `/v2/projects/{project}`.
    fn shown(&self) -> String {
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

    fn matches(&self, steps: &[&str]) -> Option<Result<Place, PathError>> {
        if self.steps().count() != steps.len() {
            return None;
        }
        let fits = |(wanted, step): (&str, &&str)| wanted == "*" || is_word(wanted, step);
        if !self.steps().zip(steps).all(fits) {
            return None;
        }
        let given = self.steps().zip(steps).filter(|(wanted, _)| *wanted == "*").map(|(_, step)| *step);
        let mut names: Vec<&str> = given.collect();
        if self.family == Some(Family::Wiki) && self.kind.names() > 4 {
            names.splice(3..3, [DEFAULT; 2]);
        }
        if self.kind == Kind::DnsUpdateRecord {
            // It belongs to the project, whatever else the path goes through.
            names.drain(1..names.len() - usize::from(self.what == What::Object));
        }
        let names: Result<Vec<_>, _> = names.into_iter().map(IntentName::new).collect();
        Some(names.map(|names| Place { kind: self.kind, names, what: self.what }).map_err(PathError::from))
    }
}

/// `trafficGroupIntent` of `traffic-group-intent`.
fn camel_case(words: &str) -> String {
    let mut words = words.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| all + &word[..1].to_ascii_uppercase() + &word[1..])
}

/// Whether a step is this word of the paths; with or without the `s` of its plural, as pages of the wiki have both.
fn is_word(word: &str, step: &str) -> bool {
    word.trim_end_matches('s') == step.trim_end_matches('s')
        // The wiki's own slip.
        || word == "compound-intents" && step.trim_end_matches('s') == "compund-intent"
}

macro_rules! templates {
    ($($family:expr, $path:literal => $kind:ident;)*) => {
        /// Every form of path, the collection and its objects.
        const TEMPLATES: &[Template] = &[$(
            Template { family: $family, path: $path, kind: Kind::$kind, what: What::Collection },
            Template { family: $family, path: concat!($path, "/*"), kind: Kind::$kind, what: What::Object },
        )*
            Template {
                family: Some(Family::Emco),
                path: "projects/*/composite-apps/*/*",
                kind: Kind::CompositeApp,
                what: What::Object,
            },
            Template {
                family: Some(Family::Wiki),
                path: "projects/*/composite-apps/*/*/traffic-intent-set/outbound-intents/*/server",
                kind: Kind::OutboundServer,
                what: What::Only,
            },
            Template {
                family: Some(Family::Emco),
                path: "projects/*/composite-apps/*/*/deployment-intent-groups/*/traffic-group-intents/*/outbound-intents/*/server",
                kind: Kind::OutboundServer,
                what: What::Only,
            },
            // A composite app is named by two names, of which a body has the second; its objects are above.
            Template {
                family: Some(Family::Emco),
                path: "projects/*/composite-apps",
                kind: Kind::CompositeApp,
                what: What::Collection,
            },
        ];
    };
}

templates! {
    None, "projects" => Project;
    None, "projects/*/dns-update-records" => DnsUpdateRecord;
    None, "dtc-controllers" => Controller;
    Some(Family::Wiki), "projects/*/composite-apps/*/*/traffic-intent-set/inbound-intents" => Inbound;
    Some(Family::Wiki), "projects/*/composite-apps/*/*/traffic-intent-set/inbound-intents/*/clients" => Client;
    Some(Family::Wiki), "projects/*/composite-apps/*/*/traffic-intent-set/inbound-intents/*/clients/*/access-points" => AccessPoint;
    Some(Family::Wiki), "projects/*/composite-apps/*/*/traffic-intent-set/outbound-intents" => Outbound;
    Some(Family::Wiki), "projects/*/composite-apps/*/*/traffic-intent-set/compound-intents" => Compound;
    Some(Family::Wiki), "projects/*/composite-apps/*/*/traffic-intent-set/compound-intents/*/inbound-intents" => InboundOfCompound;
    // After the intents: their words are no names of sets.
    Some(Family::Wiki), "projects/*/composite-apps/*/*/traffic-intent-set" => TrafficSet;
    // After the one that is theirs: the older paths of the same records.
    Some(Family::Wiki), "projects/*/composite-apps/*/*/traffic-intent-set/*/dnsproviders" => DnsUpdateRecord;
    Some(Family::Emco), "projects/*/composite-apps/*/*/deployment-intent-groups/*/traffic-group-intents/*/dnsproviders" => DnsUpdateRecord;
    Some(Family::Emco), "projects/*/composite-apps/*/*/deployment-intent-groups" => DeploymentGroup;
    Some(Family::Emco), "projects/*/composite-apps/*/*/deployment-intent-groups/*/traffic-group-intents" => TrafficGroup;
    Some(Family::Emco), "projects/*/composite-apps/*/*/deployment-intent-groups/*/traffic-group-intents/*/inbound-intents" => Inbound;
    Some(Family::Emco), "projects/*/composite-apps/*/*/deployment-intent-groups/*/traffic-group-intents/*/inbound-intents/*/clients" => Client;
    Some(Family::Emco), "projects/*/composite-apps/*/*/deployment-intent-groups/*/traffic-group-intents/*/inbound-intents/*/clients/*/access-points" => AccessPoint;
    Some(Family::Emco), "projects/*/composite-apps/*/*/deployment-intent-groups/*/traffic-group-intents/*/outbound-intents" => Outbound;
    Some(Family::Emco), "projects/*/composite-apps/*/*/deployment-intent-groups/*/traffic-group-intents/*/compound-intents" => Compound;
    Some(Family::Emco), "projects/*/composite-apps/*/*/deployment-intent-groups/*/traffic-group-intents/*/compound-intents/*/inbound-intents" => InboundOfCompound;
}

/// The kinds that are intents, which `/v1/intents` has: what is exposed, and what is used. In the order of their keys.
pub const INTENT_KINDS: [Kind; 4] = [Kind::InboundOfCompound, Kind::Compound, Kind::Inbound, Kind::Outbound];

/// How a key is written.
pub const KEY_FORM: &str =
    "write inbound/PROJECT/APP/VERSION/GROUP/TRAFFIC-GROUP/NAME, or compound/…, compound-inbound/…, outbound/…";

/// What the groups are called that W has no names for.
pub(crate) const DEFAULT: &str = "default";

#[cfg(test)]
mod tests {
    use super::*;

    const W: &str = "/v2/projects/p/composite-apps/blue-app/v1";
    const E: &str =
        "/v2/projects/p/composite-apps/blue-app/v1/deployment-intent-groups/default/traffic-group-intents/default";

    fn read(path: &str) -> (Kind, String, What) {
        let place = Place::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let names = place.names.iter().map(IntentName::as_str).collect::<Vec<_>>().join("/");
        (place.kind, names, place.what)
    }

    #[test]
    fn each_family_leads_to_the_same_objects() {
        for (below, kind, names, what) in [
            ("inbound-intents", Kind::Inbound, "", What::Collection),
            ("inbound-intents/n", Kind::Inbound, "/n", What::Object),
            ("inbound-intents/n/clients", Kind::Client, "/n", What::Collection),
            ("inbound-intents/n/clients/c", Kind::Client, "/n/c", What::Object),
            ("inbound-intents/n/clients/c/access-points", Kind::AccessPoint, "/n/c", What::Collection),
            ("inbound-intents/n/clients/c/access-points/a", Kind::AccessPoint, "/n/c/a", What::Object),
            ("outbound-intents", Kind::Outbound, "", What::Collection),
            ("outbound-intents/o", Kind::Outbound, "/o", What::Object),
            ("outbound-intents/o/server", Kind::OutboundServer, "/o", What::Only),
            ("compound-intents", Kind::Compound, "", What::Collection),
            ("compound-intents/c", Kind::Compound, "/c", What::Object),
            ("compound-intents/c/inbound-intents", Kind::InboundOfCompound, "/c", What::Collection),
            ("compound-intents/c/inbound-intents/n", Kind::InboundOfCompound, "/c/n", What::Object),
        ] {
            let expected = (kind, format!("p/blue-app/v1/default/default{names}"), what);
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
    fn keys_of_intents_are_paths_and_others_are_not() {
        for key in ["inbound/p/a/v1/default/default/n", "compound-inbound/p/a/v1/d/t/c/n", "outbound/p/a/v1/d/t/o"] {
            let place = Place::read(&format!("/v1/intents/{key}/")).unwrap();
            assert_eq!((place.key(None).as_str(), place.what), (key, What::Object));
            assert_eq!(path_of(&place.key(None), Family::Fairway), Some(format!("/v1/intents/{key}")));
            assert_eq!(project_of(&format!("/v1/intents/{key}")).as_deref(), Some("p"));
        }
        for key in ["inbound/p/a/v1/d/n", "pool/shop", "receipt/a", "inbound", "client/p/a/v1/d/t/n/c"] {
            assert_eq!(Place::read(&format!("/v1/intents/{key}")), Err(PathError::Unknown), "{key}");
        }
        for name in ["%70", "..", "a b", ""] {
            let read = Place::read(&format!("/v1/intents/inbound/{name}/a/v1/d/t/n"));
            assert!(matches!(read, Err(PathError::Name(_))), "{name}: {read:?}");
        }
    }

    #[test]
    fn paths_of_one_family_lead_to_their_objects() {
        for (path, kind, names, what) in [
            ("/v2/projects", Kind::Project, "", What::Collection),
            ("/v2/projects/p/", Kind::Project, "p", What::Object),
            ("/v2/project/p/dns-update-records", Kind::DnsUpdateRecord, "p", What::Collection),
            ("/v2/projects/p/dns-update-records/r", Kind::DnsUpdateRecord, "p/r", What::Object),
            (
                "/v2/projects/p/composite-apps/a/v1/traffic-intent-sets/s/dnsproviders",
                Kind::DnsUpdateRecord,
                "p",
                What::Collection,
            ),
            (
                "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/d/traffic-group-intents/t/dnsproviders/r",
                Kind::DnsUpdateRecord,
                "p/r",
                What::Object,
            ),
            ("/v2/dtc-controllers/its", Kind::Controller, "its", What::Object),
            ("/v2/projects/p/composite-apps", Kind::CompositeApp, "p", What::Collection),
            ("/v2/projects/p/composite-apps/a/v1", Kind::CompositeApp, "p/a/v1", What::Object),
            (
                "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/d",
                Kind::DeploymentGroup,
                "p/a/v1/d",
                What::Object,
            ),
            (
                "/v2/projects/p/composite-apps/a/v1/deployment-intent-groups/d/traffic-group-intent",
                Kind::TrafficGroup,
                "p/a/v1/d",
                What::Collection,
            ),
            ("/v2/projects/p/composite-apps/a/v1/traffic-intent-set", Kind::TrafficSet, "p/a/v1", What::Collection),
            ("/v2/projects/p/composite-apps/a/v1/traffic-intent-sets/s", Kind::TrafficSet, "p/a/v1/s", What::Object),
        ] {
            assert_eq!(read(path), (kind, names.to_owned(), what), "{path}");
        }
    }

    #[test]
    fn every_form_leads_where_it_says() {
        for Form { path: form, kind, what, .. } in forms() {
            let path = form.split('/').map(|step| if step.starts_with('{') { "x" } else { step }).collect::<Vec<_>>();
            let place = Place::read(&path.join("/")).unwrap_or_else(|error| panic!("{form}: {error}"));
            assert_eq!((place.kind, place.what), (kind, what), "{form}");
            let names: Vec<&str> = form.split('/').filter(|step| step.starts_with('{')).collect();
            let different: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(names.len(), different.len(), "{form} calls two things alike");
        }
    }

    #[test]
    fn the_path_of_an_object_leads_back_to_it() {
        for kind in Kind::ALL {
            let names = ["p", "a", "v", "default", "default", "x", "y", "z"];
            let key = Key::new(*kind, &names[..kind.names()]).unwrap();
            for family in [Family::Wiki, Family::Emco] {
                let Some(path) = path_of(&key, family) else { continue };
                assert_eq!(Place::read(&path).map(|place| place.key(None)), Ok(key.clone()), "{path}");
            }
        }
        let elsewhere = Key::new(Kind::Inbound, &["p", "a", "v", "blue", "default", "x"]).unwrap();
        assert_eq!(path_of(&elsewhere, Family::Wiki), None);
        assert!(path_of(&elsewhere, Family::Emco).unwrap().contains("/blue/"));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "/",
            "/v2",
            "/v2/",
            "/v2/projects/p/composite-apps/a",
            "/v2/projects/p/composite-apps/a/v/other",
            "/v1/projects",
        ] {
            assert_eq!(Place::read(path), Err(PathError::Unknown), "{path}");
        }
        for path in ["/v2/projects/..", "/v2/projects/%2e", "/v2/projects/", "/v2/projects//dns-update-records"] {
            assert!(
                Place::read(path).is_ok_and(|place| place.kind == Kind::Project)
                    || matches!(Place::read(path), Err(PathError::Name(_))),
                "{path}"
            );
        }
    }
}
