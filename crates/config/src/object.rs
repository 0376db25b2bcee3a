//! Objects of the API: elements of a list of the configuration, in JSON.
//!
//! Keys, limits and errors are the same as in a file. Rules across objects are checked by the caller, who has all
//! objects. Files and environment variables cannot be used, since clients of the API need not be operators of the
//! server.

use std::fmt;

use fairway_model::{DesiredState, Diagnostic};

use super::{attempt::from_text, context::Input, reason::Reason, tree_wire::is_json_object};

/// An error of an object, with its location in the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectError {
    /// JSON pointer (RFC 6901) in the object; empty for the whole.
    pub pointer: String,
    /// The message, with its hint.
    pub what: String,
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.pointer.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}", self.pointer, self.what)
    }
}

/// Reads an object of a section: `clusters`, `monitors`, `names` or `pools`. Returns all its errors.
pub fn object(section: &str, text: &str) -> Result<DesiredState, Vec<ObjectError>> {
    let whole = |what: String| vec![ObjectError { pointer: String::new(), what }];
    // Parsed separately, so that no text can close the list that it is inserted into.
    match serde_json::from_str::<serde_json::Value>(text) {
        Ok(serde_json::Value::Object(_)) => {}
        Ok(_) => return Err(whole("the body is not a JSON object; write it like {\"name\": \"…\"}".to_owned())),
        Err(error) => return Err(whole(format!("the body is not JSON: {error}"))),
    }
    read(section, &[text]).map_err(|diagnostics| {
        let diagnostics = diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
        diagnostics.map(|diagnostic| in_object(section, diagnostic)).collect()
    })
}

/// Reads many objects of a section together, which takes a fraction of the time. Returns `None` if any of them is
/// invalid; [`object`] returns the errors.
pub fn objects(section: &str, texts: &[&str]) -> Option<DesiredState> {
    let all_plain = texts.iter().all(|text| is_json_object(text));
    all_plain.then(|| read(section, texts).ok()).flatten()
}

/// Reads objects that are each a JSON object.
fn read(section: &str, objects: &[&str]) -> Result<DesiredState, Vec<Diagnostic>> {
    from_text(format!("{{\"version\": 1, \"{section}\": [{}]}}", objects.join(",")), "", Input::ApiObject)
}

/// Converts an error of a list of one object to an error of that object.
fn in_object(section: &str, diagnostic: &Diagnostic) -> ObjectError {
    let inside = diagnostic.fact.strip_prefix(&format!("/{section}/0")).and_then(|rest| rest.split_once(": "));
    let (pointer, what) = inside.unwrap_or(("", &diagnostic.fact));
    ObjectError { pointer: pointer.to_owned(), what: Reason::new(what, &diagnostic.hint).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostics(section: &str, text: &str) -> Vec<(String, String)> {
        object(section, text).unwrap_err().into_iter().map(|diagnostic| (diagnostic.pointer, diagnostic.what)).collect()
    }

    #[test]
    fn object_is_read_as_element_of_its_section() {
        let text = r#"{"name": "shop", "policy": "weighted", "ttl": "20s", "members": [{"cluster": "nobody-knows-it", "weight": 7}]}"#;
        let desired = object("pools", text).unwrap();
        let pool = desired.pools.values().next().unwrap();
        assert_eq!((pool.name.as_str(), pool.ttl.secs(), pool.members[0].weight.0), ("shop", 20, 7));
        assert!(object("names", r#"{"name": "shop.gslb.example", "pool": "elsewhere"}"#).is_ok());
    }

    #[test]
    fn batch_equals_single_objects_and_is_none_with_an_invalid_one() {
        let one = r#"{"name": "a", "policy": "weighted", "members": [{"cluster": "c"}]}"#;
        let two = r#"{"name": "b", "policy": "failover", "ttl": "7s", "members": [{"cluster": "d", "weight": 2}]}"#;
        let together = objects("pools", &[one, two]).unwrap();
        let mut each = object("pools", one).unwrap();
        each.pools.extend(object("pools", two).unwrap().pools);
        assert_eq!(together, each);
        for other in [one, r#"{"name": "a b"}"#, "7", r#"{"name":"x"}], "user": "root", "names": [{"name":"y"}"#] {
            assert_eq!(objects("pools", &[one, other]), None, "{other}");
        }
    }

    #[test]
    fn every_error_has_a_pointer() {
        let text = r#"{"name": "a b", "members": [{"cluster": "c", "weight": 70000}, {"cluster": "d", "colour": 1}]}"#;
        let found = diagnostics("pools", text);
        let pointers: Vec<&str> = found.iter().map(|(pointer, _)| pointer.as_str()).collect();
        for wanted in ["/name", "/members/0/weight", "/members/1/colour"] {
            assert!(pointers.contains(&wanted), "{wanted}: {found:?}");
        }
        assert!(found.iter().any(|(_, what)| what.contains("70000 is over 65535")), "{found:?}");
    }

    #[test]
    fn text_that_closes_the_list_is_rejected() {
        for text in [
            r#"{"name":"a"}], "user": "root", "names": [{"name":"b"}"#,
            "{\"name\": \"a\"} ]",
            "",
            "[]",
            "# no",
            "{\"a\":1",
        ] {
            let found = diagnostics("pools", text);
            assert!(
                found.len() == 1 && found[0].0.is_empty() && found[0].1.starts_with("the body is not"),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn object_cannot_read_files_or_variables_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "hidden").unwrap();
        let tls = |what: &str| format!(r#"{{"name": "m", "type": "https", "tls": {{"ca": {what}}}}}"#);
        for what in [format!(r#"{{"file": {:?}}}"#, secret.to_str().unwrap()), r#"{"env": "PATH"}"#.to_owned()] {
            let found = diagnostics("monitors", &tls(&what));
            assert!(found.len() == 1 && found[0].0.starts_with("/tls/ca"), "{found:?}");
        }
    }

    #[test]
    fn quoted_keys_have_a_pointer() {
        let found =
            diagnostics("pools", r#"{"name": "p", "policy": "weighted", "members": [{"cluster": "c", "a/b": 1}]}"#);
        assert_eq!(found, [("/members/0/a~1b".to_owned(), found[0].1.clone())]);
        assert!(diagnostics("pools", "{}").iter().all(|(pointer, _)| pointer.is_empty()));
    }
}
