//! Parts of intents that only a service mesh can enforce. Fairway stores them and renders nothing yet, and says so.

use fairway_model::intent::{AccessAction, Certificates, Client, ClientSecurity, Inbound, Intent, IntentSpec, Traffic};

use super::error::BodyError;

/// Returns what of an intent is stored for the service mesh and not enforced: the names of its fields, or the whole intent, which is an
/// empty list. `None` if everything is enforced.
pub fn not_rendered(intent: &Intent) -> Option<Vec<&'static str>> {
    let fields = match &intent.spec {
        IntentSpec::AccessPoint(_) | IntentSpec::Outbound(_) | IntentSpec::OutboundServer(_) => return Some(vec![]),
        IntentSpec::Client(client) => of_client(client),
        IntentSpec::Inbound(inbound) => of_inbound(inbound),
        _ => vec![],
    };
    (!fields.is_empty()).then_some(fields)
}

fn of_client(client: &Client) -> Vec<&'static str> {
    let fields = [
        ("spec.namespaces", !client.namespaces.is_empty()),
        ("spec.security", client.security != ClientSecurity::default()),
    ];
    given(&fields)
}

fn of_inbound(inbound: &Inbound) -> Vec<&'static str> {
    let default = Inbound::default();
    let fields = [
        ("spec.access.namespaces", !inbound.namespaces.is_empty()),
        ("spec.access.serviceAccounts", !inbound.service_accounts.is_empty()),
        ("spec.certificates", inbound.certificates != Certificates::default()),
        ("spec.headless", inbound.headless),
        ("spec.localDomain", !inbound.local_domain.is_empty()),
        ("spec.serviceMesh", inbound.service_mesh != default.service_mesh),
        ("spec.sidecarProxy", inbound.sidecar_proxy != default.sidecar_proxy),
        ("spec.tlsMode", inbound.tls_mode != default.tls_mode),
        ("spec.traffic", inbound.traffic != Traffic::default()),
    ];
    given(&fields)
}

fn given(fields: &[(&'static str, bool)]) -> Vec<&'static str> {
    fields.iter().filter(|(_, is_given)| *is_given).map(|(field, _)| *field).collect()
}

/// Returns the error of an access point that denies requests: nothing enforces it, so its author would rely on nothing. One that was
/// stored as inert before stays valid.
pub fn unenforced_denial(intent: &Intent, before: Option<&Intent>) -> Option<BodyError> {
    let denies =
        |intent: &Intent| matches!(&intent.spec, IntentSpec::AccessPoint(point) if point.action == AccessAction::Deny);
    let detail = "DENY is not enforced: no mesh is rendered yet, so every request would still be allowed; \
                  add ?inert=true (fairway apply --inert) to store it without effect";
    (denies(intent) && !before.is_some_and(denies)).then(|| BodyError::new("/spec/action", detail))
}

#[cfg(test)]
mod tests {
    use fairway_model::intent::TlsMode;
    use fairway_store::objects::Kind;

    use super::*;
    use crate::body::read;

    fn intent(kind: Kind, spec: &str) -> Intent {
        let text = format!("{{\"metadata\": {{\"name\": \"a\"}}, \"spec\": {spec}}}");
        read(kind, text.as_bytes(), None).unwrap()
    }

    #[test]
    fn mesh_fields_and_kinds_are_named_as_not_rendered() {
        let plain =
            "{\"app\": \"a\", \"serviceName\": \"shop\", \"externalSupport\": true, \"externalName\": \"a.example\"}";
        assert_eq!(not_rendered(&intent(Kind::Inbound, plain)), None);
        let mesh = plain.replace('}', ", \"tlsMode\": \"NONE\", \"access\": {\"namespaces\": [\"n\"]}}");
        let found = not_rendered(&intent(Kind::Inbound, &mesh));
        assert_eq!(found, Some(vec!["spec.access.namespaces", "spec.tlsMode"]));
        assert_eq!(
            not_rendered(&intent(Kind::AccessPoint, "{\"action\": \"ALLOW\", \"url\": [\"/a\"]}")),
            Some(vec![])
        );
        let default = Inbound { tls_mode: TlsMode::default(), ..Inbound::default() };
        assert!(of_inbound(&default).is_empty());
    }

    #[test]
    fn new_denial_is_refused_and_a_stored_one_stays_valid() {
        let point =
            |action: &str| intent(Kind::AccessPoint, &format!("{{\"action\": \"{action}\", \"url\": [\"/a\"]}}"));
        assert_eq!(unenforced_denial(&point("ALLOW"), None), None);
        assert_eq!(unenforced_denial(&point("DENY"), Some(&point("DENY"))), None);
        assert!(unenforced_denial(&point("DENY"), Some(&point("ALLOW"))).is_some());
        let error = unenforced_denial(&point("DENY"), None).unwrap();
        assert!(error.pointer == "/spec/action" && error.detail.contains("?inert=true"), "{error:?}");
    }
}
