use std::collections::BTreeSet;

use super::*;
use crate::routes;
use fairway_api_types::endpoints::DNS_UPDATE_RECORD;

fn listener() -> Value {
    let routes: Vec<_> = routes::table().into_iter().filter(|route| !route.is_local).collect();
    document(&routes)
}

/// Calls `visit` with every object within a value.
fn objects(value: &Value, visit: &mut impl FnMut(&Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| objects(item, visit)),
        Value::Object(object) => {
            visit(object);
            object.values().for_each(|inner| objects(inner, visit));
        }
        _ => {}
    }
}

#[test]
fn every_reference_has_a_component_and_every_component_is_used() {
    let document = listener();
    let mut wanted = BTreeSet::new();
    objects(&document, &mut |object| {
        wanted.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
    });
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let there: BTreeSet<String> = schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
    assert_eq!(wanted, there);
}

#[test]
fn schemas_are_valid_and_have_descriptions() {
    let document = listener();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(jsonschema::meta::is_valid(schema), "{name}");
        // Bodies of intents are described in the manual.
        let is_described = name.ends_with("Body") && name != "ApplyBody" || schema.get("description").is_some();
        assert!(is_described || name.ends_with("List"), "{name} has no description");
    }
    let pool = &document["components"]["schemas"]["Pool"]["properties"];
    assert_eq!(pool["members"]["items"]["$ref"], "#/components/schemas/Member");
    assert_eq!(pool["status"]["$ref"], "#/components/schemas/ObjectStatus");
    assert!(pool["ttl"]["examples"][0].is_string(), "strings with a format have an example: {}", pool["ttl"]);
}

#[test]
fn operation_ids_are_unique_and_path_parameters_are_described() {
    let document = listener();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{method} {path}: {id} is used twice");
            let parameters = operation["parameters"].as_array().unwrap();
            let in_path: Vec<&str> =
                parameters.iter().filter(|of| of["in"] == "path").filter_map(|of| of["name"].as_str()).collect();
            let wanted: Vec<&str> =
                path.split('/').filter_map(|step| step.strip_prefix('{')?.strip_suffix('}')).collect();
            assert_eq!(in_path, wanted, "{method} {path}");
            for parameter in parameters {
                assert_ne!(parameter["description"], "", "{method} {path}: {}", parameter["name"]);
            }
            for (status, answer) in operation["responses"].as_object().unwrap() {
                assert_ne!(answer["description"], "", "{method} {path}: {status}");
            }
        }
    }
}

#[test]
fn operation_ids_are_the_documented_names() {
    let document = listener();
    for (path, method, id) in [
        ("/v1/clusters", "get", "listClusters"),
        ("/v1/records/{name}", "get", "getRecordsOfName"),
        ("/v1/overrides", "post", "createOverride"),
        ("/v1/intents", "get", "listIntents"),
        (DNS_UPDATE_RECORD.path.as_ref(), "get", "getDnsUpdateRecord"),
        ("/v2/dtc-controllers", "get", "listControllers"),
        (
            "/v2/projects/{project}/composite-apps/{compositeApp}/{version}/traffic-intent-set",
            "post",
            "createOnapTrafficIntentSet",
        ),
    ] {
        assert_eq!(document["paths"][path][method]["operationId"], id, "{method} {path}");
    }
}

#[test]
fn operation_has_its_permission_and_auth_errors() {
    let document = listener();
    let put = &document["paths"]["/v1/pools/{name}"]["put"];
    assert!(put["description"].as_str().unwrap().ends_with("Requires: write."), "{}", put["description"]);
    for status in ["200", "201", "400", "401", "403", "409", "412", "413", "415", "421", "422", "429", "503", "507"] {
        assert!(put["responses"].get(status).is_some(), "{status}");
    }
    let headers: Vec<_> = put["parameters"].as_array().unwrap().iter().filter(|of| of["in"] == "header").collect();
    assert!(headers.iter().any(|of| of["name"] == "If-Match"), "{headers:?}");
    assert_eq!(document["paths"]["/healthz"]["get"]["security"], json!([]));
    assert!(document["paths"]["/healthz"]["get"]["responses"].get("401").is_none());
}
