//! Rights in a cluster, as manifests of Kubernetes: exactly those that the requests of this crate need.

use std::{fmt::Write as _, str::FromStr};

use fairway_model::{KubernetesApi, SecretKey};
use fairway_providers::dnsendpoint::Objects;

use crate::{dnsendpoints, events::EVENTS_GROUP, objects::Kind};

/// The ServiceAccount that gets the rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    namespace: String,
    name: String,
}

/// Error of parsing a ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not NAMESPACE/NAME; write it like fairway/fairway")]
pub struct ServiceAccountError(String);

impl FromStr for ServiceAccount {
    type Err = ServiceAccountError;

    /// Parses `NAMESPACE/NAME`.
    fn from_str(text: &str) -> Result<Self, ServiceAccountError> {
        let is_name = |part: &str| {
            let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
            (1..=253).contains(&part.len()) && part.bytes().all(is_known)
        };
        let parts = text.split_once('/').filter(|(namespace, name)| is_name(namespace) && is_name(name));
        let (namespace, name) = parts.ok_or_else(|| ServiceAccountError(text.to_owned()))?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl ServiceAccount {
    /// Returns the manifests of all rights in a cluster: those for reading, for Events if they are on, and for the objects of publishers.
    pub fn rights(&self, api: &KubernetesApi, publishers: &[Objects]) -> String {
        let mut rules = reading_rules();
        if api.events {
            rules.push(rule(EVENTS_GROUP, &["events"], None, &["create"]));
        }
        let mut text = self.bound("fairway-read", None, &rules);
        for objects in publishers {
            let [group, plural] = dnsendpoints::RESOURCE;
            let (name, leases) = (objects.prefix(), "coordination.k8s.io");
            let rules = [
                rule(group, &[plural], None, &["list", "create", "patch", "delete"]),
                // The name of an object that is created is not known when the right is checked.
                rule(leases, &["leases"], None, &["create"]),
                rule(leases, &["leases"], Some(&name), &["get", "update"]),
            ];
            text.push_str("---\n");
            text += &self.bound(&name, Some(&objects.namespace), &rules);
        }
        text
    }

    /// Returns the manifests of the right to read one Secret.
    pub fn right_of_secret(&self, SecretKey { namespace, name, .. }: &SecretKey) -> String {
        let rules = [rule("", &["secrets"], Some(name), &["get"])];
        self.bound(&format!("fairway-secret-{name}"), Some(namespace), &rules)
    }

    /// Returns a Role of a namespace, or a ClusterRole, and its binding.
    fn bound(&self, name: &str, namespace: Option<&str>, rules: &[String]) -> String {
        let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
        // The role is the same for all ServiceAccounts; the binding has only one. Neither of its names has a colon, so no two are the same.
        let binding = text(&format!("{name}:{}:{}", self.namespace, self.name));
        let name = text(name);
        let namespace = namespace.map(|namespace| format!(", namespace: {}", text(namespace))).unwrap_or_default();
        let head = |kind: &str, name: &str| {
            format!("apiVersion: {GROUP}/v1\nkind: {kind}\nmetadata: {{ name: {name}{namespace} }}\n")
        };
        let mut all = head(kind, &name) + "rules:\n";
        for rule in rules {
            let _ = writeln!(all, "  - {rule}");
        }
        let binding = head(&format!("{kind}Binding"), &binding);
        let subject = format!("kind: ServiceAccount, name: {}, namespace: {}", text(&self.name), text(&self.namespace));
        let role = format!("apiGroup: {GROUP}, kind: {kind}, name: {name}");
        let _ = write!(all, "---\n{binding}roleRef: {{ {role} }}\nsubjects: [ {{ {subject} }} ]\n");
        all
    }
}

/// Returns a rule for each group of the kinds that are read.
fn reading_rules() -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for kind in Kind::ALL {
        let (group, .., plural) = kind.resources()[0];
        match groups.iter_mut().find(|(known, _)| *known == group) {
            Some((_, plurals)) => plurals.push(plural),
            None => groups.push((group, vec![plural])),
        }
    }
    groups.iter().map(|(group, plurals)| rule(group, plurals, None, &["list", "watch"])).collect()
}

fn rule(group: &str, resources: &[&str], name: Option<&str>, verbs: &[&str]) -> String {
    let names = name.map(|name| format!(", resourceNames: [{}]", text(name))).unwrap_or_default();
    let (resources, verbs) = (resources.join(", "), verbs.join(", "));
    format!("{{ apiGroups: [{}], resources: [{resources}]{names}, verbs: [{verbs}] }}", text(group))
}

/// Returns a text as YAML: plain if it begins with a letter and is not one of YAML's words for true, false and null, else quoted.
fn text(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_word = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&text);
    if text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(is_plain) && !is_word {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

const GROUP: &str = "rbac.authorization.k8s.io";

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> ServiceAccount {
        "dns/on".parse().unwrap()
    }

    #[test]
    fn rights_are_those_of_reading_events_and_publishers() {
        let api = KubernetesApi::default();
        let read = account().rights(&api, &[]);
        assert_eq!(read.matches("resources: [").count(), 7, "{read}");
        assert!(read.contains("  - { apiGroups: [\"\"], resources: [services], verbs: [list, watch] }\n"), "{read}");
        assert!(read.ends_with("subjects: [ { kind: ServiceAccount, name: \"on\", namespace: dns } ]\n"), "{read}");
        assert!(Kind::ALL.iter().all(|kind| read.contains(kind.resources()[0].3)), "{read}");
        for verb in ["create", "patch", "update", "delete", "get", "*"] {
            assert!(!read.contains(verb), "{verb}: {read}");
        }
        let objects = Objects { name: "Corp.1".to_owned(), namespace: "007".to_owned(), weights: None };
        let all = account().rights(&KubernetesApi { events: true, ..api }, &[objects]);
        assert!(all.contains("  - { apiGroups: [events.k8s.io], resources: [events], verbs: [create] }\n"), "{all}");
        assert!(all.contains("kind: Role\nmetadata: { name: fairway-corp-1, namespace: \"007\" }\n"), "{all}");
        let lease = "resources: [leases], resourceNames: [fairway-corp-1], verbs: [get, update] }\n";
        assert!(all.contains(lease), "{all}");
    }

    #[test]
    fn secret_is_the_only_one_that_may_be_read() {
        let secret = SecretKey { namespace: "a".to_owned(), name: "b: *".to_owned(), key: "k".to_owned() };
        let role = account().right_of_secret(&secret);
        let rule = "  - { apiGroups: [\"\"], resources: [secrets], resourceNames: [\"b: *\"], verbs: [get] }\n";
        assert!(role.contains(rule) && role.contains("name: \"fairway-secret-b: *\", namespace: a }"), "{role}");
    }

    #[test]
    fn accounts_share_roles_and_have_their_own_bindings() {
        let api = KubernetesApi::default();
        let objects = [Objects { name: "corp".to_owned(), namespace: "dns".to_owned(), weights: None }];
        let names = |account: &str| -> Vec<String> {
            let manifests = account.parse::<ServiceAccount>().unwrap().rights(&api, &objects);
            let names = manifests.lines().filter_map(|line| line.strip_prefix("metadata: { name: "));
            names.map(|name| name.trim_end_matches(" }").to_owned()).collect()
        };
        let expected = |binding: &str| {
            let read = ["fairway-read".to_owned(), format!("\"fairway-read:{binding}\"")];
            let corp = ["fairway-corp".to_owned(), format!("\"fairway-corp:{binding}\"")];
            let corp = corp.map(|name| format!("{name}, namespace: dns"));
            read.into_iter().chain(corp).collect::<Vec<_>>()
        };
        for (account, binding) in [("a-b/c", "a-b:c"), ("a/b-c", "a:b-c"), ("a/b.c", "a:b.c")] {
            assert_eq!(names(account), expected(binding), "{account}");
        }
    }

    #[test]
    fn account_needs_a_namespace_and_a_name() {
        for text in ["", "fairway", "/fairway", "fairway/", "a/b/c", "A/b", "a/b c"] {
            assert!(text.parse::<ServiceAccount>().is_err(), "{text:?}");
        }
    }
}
